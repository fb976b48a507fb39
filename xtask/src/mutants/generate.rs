//! Finds the places of a file that can be mutated.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A small change of the source that breaks one fact: a dropped statement, a dropped or negated condition, another
/// comparison, a function that returns at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// The file, from the root of the tree.
    pub(super) file: String,
    pub(super) line: usize,
    /// The function that it changes.
    pub(super) function: String,
    /// A description of the change.
    pub(super) change: String,
    /// The bytes of the file that it replaces.
    pub(super) from: usize,
    pub(super) to: usize,
    /// The text in their place. `@@` is the call that tells whether the mutant is active.
    pub(super) text: String,
}

impl Mutant {
    /// Its name, the same in every run over the same tree.
    pub(super) fn name(&self) -> String {
        format!("{}:{}: {} in {}", self.file, self.line, self.change, self.function)
    }
}

/// All mutants of a file, in order.
pub(super) fn mutants(file: &str, source: &str) -> syn::Result<Vec<Mutant>> {
    let parsed = syn::parse_file(source)?;
    let mut generator = Generator { file, source, function: vec![], found: vec![] };
    generator.visit_file(&parsed);
    let mut found = generator.found;
    found.sort_by_key(|mutant| (mutant.from, mutant.to));
    Ok(found)
}

struct Generator<'a> {
    file: &'a str,
    source: &'a str,
    /// The names of the functions around the current place.
    function: Vec<String>,
    found: Vec<Mutant>,
}

/// Closures that are conditions, by the method that takes them.
const OF_CONDITIONS: [&str; 7] = ["filter", "retain", "is_some_and", "is_none_or", "any", "all", "partition"];
/// Calls that no test is to notice: metrics and log lines. A dropped guard would hold its lock, which stops everything.
const UNNOTICED: [&str; 9] =
    ["counter!", "gauge!", "histogram!", "warn!", "info!", "debug!", "error!", "drop(", ".increment("];
/// Traits whose implementations are for people only.
const FOR_PEOPLE: [&str; 2] = ["Debug", "Display"];

impl Generator<'_> {
    fn text(&self, part: &impl Spanned) -> &str {
        &self.source[part.span().byte_range()]
    }

    fn add(&mut self, part: &impl Spanned, change: &str, text: String) {
        let span = part.span();
        let range = span.byte_range();
        let (from, to) = (range.start, range.end);
        self.push(span.start().line, from, to, change, text);
    }

    fn push(&mut self, line: usize, from: usize, to: usize, change: &str, text: String) {
        let Some(function) = self.function.last().cloned() else { return };
        let (file, change) = (self.file.to_owned(), change.to_owned());
        self.found.push(Mutant { file, line, function, change, from, to, text });
    }

    /// A function that returns at once.
    fn add_returns(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let values: &[&str] = match &signature.output {
            syn::ReturnType::Default => &[""],
            syn::ReturnType::Type(_, of) => match self.text(of).split('<').next().unwrap_or_default() {
                "bool" => &[" true", " false"],
                "usize" | "u64" | "u32" => &[" 0"],
                "Option" => &[" None"],
                "Vec" => &[" vec![]"],
                "Result" if self.text(of).starts_with("Result<(), ") => &[" Ok(())"],
                _ => &[],
            },
        };
        if signature.constness.is_some() || block.stmts.is_empty() {
            return;
        }
        let at = block.brace_token.span.open().byte_range().end;
        let line = signature.span().start().line;
        for value in values {
            self.push(line, at, at, &format!("returns{value} at once"), format!(" if @@ {{ return{value}; }} "));
        }
    }

    /// The condition of an `if`, a loop or a match arm, with both of its outcomes.
    fn add_condition(&mut self, condition: &syn::Expr) {
        match condition {
            syn::Expr::Let(_) => {}
            syn::Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
                for side in [&both.left, &both.right] {
                    self.add_operand(side, true);
                }
            }
            syn::Expr::Binary(either) if matches!(either.op, syn::BinOp::Or(_)) => {
                for side in [&either.left, &either.right] {
                    self.add_operand(side, false);
                }
                self.add_forced(condition, true);
            }
            _ => {
                self.add_forced(condition, true);
                self.add_forced(condition, false);
            }
        }
    }

    /// An operand of `&&`, which is neutral if it is true, or of `||`, which is neutral if it is false.
    fn add_operand(&mut self, operand: &syn::Expr, neutral: bool) {
        match operand {
            syn::Expr::Let(_) => {}
            syn::Expr::Binary(binary) if matches!(binary.op, syn::BinOp::And(_)) && neutral => {
                for side in [&binary.left, &binary.right] {
                    self.add_operand(side, neutral);
                }
            }
            _ => self.add_forced(operand, neutral),
        }
    }

    fn add_forced(&mut self, condition: &syn::Expr, outcome: bool) {
        let text = self.text(condition);
        let forced = if outcome { format!("(@@ || ({text}))") } else { format!("(!@@ && ({text}))") };
        let change = format!("`{}` is always {outcome}", shortened(text));
        self.add(condition, &change, forced);
    }
}

/// One line of a text, for a name.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= 80 { line } else { format!("{}…", line.chars().take(79).collect::<String>()) }
}

fn is_for_tests(attributes: &[syn::Attribute], source: &str) -> bool {
    attributes.iter().any(|attribute| {
        let text = &source[attribute.span().byte_range()];
        text.contains("cfg(test)") || text.contains("test]")
    })
}

impl<'ast> Visit<'ast> for Generator<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs, self.source) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()).map(|last| last.ident.to_string());
        if !of.is_some_and(|of| FOR_PEOPLE.contains(&of.as_str())) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_for_tests(&item.attrs, self.source) || item.sig.constness.is_some() {
            return;
        }
        self.function.push(item.sig.ident.to_string());
        self.add_returns(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
        self.function.pop();
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_for_tests(&item.attrs, self.source) || item.sig.constness.is_some() {
            return;
        }
        self.function.push(item.sig.ident.to_string());
        self.add_returns(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
        self.function.pop();
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(expression, Some(_)) = statement {
            let is_update = match expression {
                syn::Expr::MethodCall(_) | syn::Expr::Call(_) | syn::Expr::Await(_) | syn::Expr::Try(_) => true,
                syn::Expr::Assign(_) => true,
                syn::Expr::Binary(binary) => is_assignment(&binary.op),
                _ => false,
            };
            let text = self.text(statement);
            if is_update && !UNNOTICED.iter().any(|call| text.contains(call)) {
                let (change, text) = (format!("no `{}`", shortened(text)), format!("if !@@ {{ {text} }}"));
                self.add(statement, &change, text);
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.add_condition(&expression.cond);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        if !matches!(*expression.cond, syn::Expr::Let(_)) {
            self.add_forced(&expression.cond, false);
        }
        visit::visit_expr_while(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.add_condition(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if OF_CONDITIONS.contains(&call.method.to_string().as_str())
            && let Some(syn::Expr::Closure(closure)) = call.args.last()
            && !matches!(*closure.body, syn::Expr::Block(_))
        {
            self.add_forced(&closure.body, true);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let other = match binary.op {
            syn::BinOp::Lt(_) => Some("<="),
            syn::BinOp::Le(_) => Some("<"),
            syn::BinOp::Gt(_) => Some(">="),
            syn::BinOp::Ge(_) => Some(">"),
            syn::BinOp::Eq(_) => Some("!="),
            syn::BinOp::Ne(_) => Some("=="),
            _ => None,
        };
        if let Some(other) = other {
            let [left, operator, right, whole] =
                [self.text(&binary.left), self.text(&binary.op), self.text(&binary.right), self.text(binary)];
            let change = format!("`{}` has {other} for {operator}", shortened(whole));
            let text = format!("(if @@ {{ {left} {other} {right} }} else {{ {whole} }})");
            self.add(binary, &change, text);
        }
        visit::visit_expr_binary(self, binary);
    }
}

fn is_assignment(operator: &syn::BinOp) -> bool {
    use syn::BinOp::{AddAssign, BitAndAssign, BitOrAssign, SubAssign};
    matches!(operator, AddAssign(_) | SubAssign(_) | BitAndAssign(_) | BitOrAssign(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of all mutants of a function body.
    fn changes(body: &str) -> Vec<String> {
        let source = format!("fn f() {{ {body} }}");
        mutants("a.rs", &source).unwrap().into_iter().map(|mutant| mutant.change).collect()
    }

    /// The source with one mutant.
    fn mutated(source: &str, change: &str) -> String {
        let found = mutants("a.rs", source).unwrap();
        let mutant = found.into_iter().find(|mutant| mutant.change == change).expect("there is such a mutant");
        format!("{}{}{}", &source[..mutant.from], mutant.text, &source[mutant.to..])
    }

    #[test]
    fn statements_conditions_and_comparisons_are_mutated() {
        assert_eq!(changes("self.note();"), ["returns at once", "no `self.note();`"]);
        assert_eq!(changes("self.count += 1;"), ["returns at once", "no `self.count += 1;`"]);
        assert_eq!(
            changes("if a < b { c() }"),
            ["returns at once", "`a < b` is always true", "`a < b` is always false", "`a < b` has <= for <"]
        );
        assert_eq!(
            changes("if a && let Some(b) = c && !d { e() }"),
            ["returns at once", "`a` is always true", "`!d` is always true"]
        );
        assert_eq!(changes("x.retain(|y| y.z())"), ["returns at once", "`y.z()` is always true"]);
    }

    #[test]
    fn metrics_log_lines_and_tests_are_not_mutated() {
        assert_eq!(changes(r#"counter!("a").increment(1); warn!("b");"#), ["returns at once"]);
        assert!(mutants("a.rs", "#[cfg(test)] mod tests { fn f() { g(); } }").unwrap().is_empty());
        assert!(mutants("a.rs", "const fn f() -> bool { true }").unwrap().is_empty());
    }

    #[test]
    fn a_mutated_source_is_the_original_while_its_mutant_is_inactive() {
        let source = "fn f() -> bool { self.note(); a == b }";
        assert_eq!(mutated(source, "no `self.note();`"), "fn f() -> bool { if !@@ { self.note(); } a == b }");
        assert_eq!(
            mutated(source, "`a == b` has != for =="),
            "fn f() -> bool { self.note(); (if @@ { a != b } else { a == b }) }"
        );
        assert_eq!(
            mutated(source, "returns true at once"),
            "fn f() -> bool { if @@ { return true; }  self.note(); a == b }"
        );
    }
}
