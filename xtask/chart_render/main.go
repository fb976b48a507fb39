// Renders a chart as Helm does: the same template language, the same functions (sprig), and of Helm's own the few that our
// chart uses. It is for the tests alone: people render the chart with Helm.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println("chart-render 1")
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "--json" {
		fail(asJSON(os.Args[2]))
		return
	}
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: chart-render CHART RELEASE NAMESPACE [VALUES...], or --json FILE"))
	}
	rendered, err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
	fail(err)
	fmt.Print(rendered)
}

// Ends the program, if something is wrong.
func fail(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

func render(chart, release, namespace string, files []string) (string, error) {
	values, err := read(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		more, err := read(file)
		if err != nil {
			return "", err
		}
		merge(values, more)
	}
	about, err := read(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return "", err
	}
	// Templates know these by names that begin with a capital.
	known := map[string]any{}
	for key, value := range about {
		known[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   known,
		"Release": map[string]any{"Name": release, "Namespace": namespace, "Service": "Helm", "IsInstall": true, "IsUpgrade": false},
	}
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return "", err
	}
	sort.Strings(paths)
	// What is missing is an error here, and nothing in Helm: the chart is to name no value that is not in values.yaml.
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if _, err := root.New(filepath.Base(path)).Parse(string(text)); err != nil {
			return "", err
		}
	}
	var all strings.Builder
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") || !strings.HasSuffix(name, ".yaml") {
			continue
		}
		var text bytes.Buffer
		if err := root.ExecuteTemplate(&text, name, data); err != nil {
			return "", err
		}
		for _, document := range strings.Split(text.String(), "\n---\n") {
			document = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(document), "---\n"))
			if document != "" {
				fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", name, document)
			}
		}
	}
	return all.String(), nil
}

// Prints the documents of a file, one in a line.
func asJSON(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, document := range strings.Split("\n"+string(text), "\n---\n") {
		line, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if string(line) != "null" {
			fmt.Println(string(line))
		}
	}
	return nil
}

func functions(root *template.Template) template.FuncMap {
	functions := sprig.TxtFuncMap()
	// As Helm has it: a template that reads the environment would render differently on every machine.
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["include"] = func(name string, data any) (string, error) {
		var text strings.Builder
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["required"] = func(message string, value any) (any, error) {
		if value == nil || value == "" {
			return value, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	return functions
}

func read(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

// Puts values over those that are there; maps are merged, everything else is replaced.
func merge(into, more map[string]any) {
	for key, value := range more {
		if inner, ok := value.(map[string]any); ok {
			if there, ok := into[key].(map[string]any); ok {
				merge(there, inner)
				continue
			}
		}
		into[key] = value
	}
}
