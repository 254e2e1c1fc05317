// The page's language: messages of the catalogue, times and numbers as the language writes them.

export const LANGUAGES = { en: "English", de: "Deutsch", it: "Italiano" };

let catalogue = {};
let language = "en";

export async function loadWords() {
  catalogue = await (await fetch("/api/messages")).json();
  speak(document.documentElement.lang);
}

export function speak(name) {
  language = name in catalogue ? name : "en";
  document.documentElement.lang = language;
}

export const spoken = () => language;

/** A message of the catalogue, with {name} replaced by values.name. */
export function t(key, values = {}) {
  const text = catalogue[language]?.[key] ?? catalogue.en?.[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// Making a format costs more than using it.
const formats = new Map();
function format(kind, options = {}) {
  const key = `${language} ${kind} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl[kind](language, options));
  return formats.get(key);
}

/** A message with a singular and a plural: `key`.one and `key`.other. */
export function count(key, n, values = {}) {
  const form = format("PluralRules").select(n) === "one" ? "one" : "other";
  return t(`${key}.${form}`, { n: number(n), ...values });
}

export const number = (value, digits = 0) =>
  format("NumberFormat", { maximumFractionDigits: digits, minimumFractionDigits: digits })
    .format(value);

/** A share in whole percent; only shares of exactly 0 and 1 are written as 0 and 100 %. */
export function share(value) {
  if (value === null || value === undefined) return "–";
  const text = value > 0 && value < 0.005 ? `< ${number(1)}`
    : value >= 0.995 && value < 1 ? `> ${number(99)}` : number(100 * value);
  return `${text}\u00a0%`;
}

/** Seconds as m:ss, or h:mm:ss from one hour on, as `clock` of report/formats.py. */
export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (n) => String(n).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** A duration of a view: tenths below ten seconds. */
export const lasting = (seconds) => number(Math.max(seconds, 0.1), seconds < 9.95 ? 1 : 0);

/** A day with its time; a text that is none as it is. */
export function moment(iso) {
  const day = new Date(iso);
  return Number.isNaN(day.valueOf()) ? iso
    : format("DateTimeFormat", { dateStyle: "medium", timeStyle: "short" }).format(day);
}

/** The interval of a count, as a phrase. */
export function interval({ low, high, polyps, corrected }) {
  if (corrected) return t("interval.corrected");
  if (low === null || high === null) return t(polyps === 0 ? "interval.zero" : "interval.none");
  return t(low === high ? "interval.same" : "interval", { low: number(low), high: number(high) });
}
