/** A radio group, each option with a short explanation. */
export function Choices<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string, string])[];
  onChange: (value: T) => void;
}) {
  const { label, value, options, onChange } = props;
  return (
    <fieldset class="card choices">
      <legend>{label}</legend>
      {options.map(([one, words, meaning]) => (
        <label key={one} class="choices-row">
          <input type="radio" name={label} checked={one === value} onChange={() => onChange(one)} />
          <span>
            <span class="choices-words">{words}</span>
            <span class="quiet">{meaning}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
