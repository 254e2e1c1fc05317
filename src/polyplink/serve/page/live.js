// The page of a running procedure: shows each state as it comes, and nothing of its own.

import { h, show, warningList, withCode } from "./dom.js";
import { clock, count, interval, loadWords, number, share, t } from "./words.js";

/** A picture that its caption describes. */
const figure = (id, caption, attributes = {}) =>
  h("figure", attributes,
    h("img", { src: `/api/pictures/${id}.jpg`, alt: "", loading: "lazy" }),
    h("figcaption", { class: "small" }, caption));
const numberOf = (tracklet) => Number(tracklet.slice(tracklet.lastIndexOf(":") + 1));

let said = ""; // what was announced last

/** The newest view, and beside it the earlier one that it looks like. */
function card({ card: view }) {
  if (!view) return h("p", { class: "news" }, t("live.waiting"));
  const earlier = view.seen_before;
  const title = !view.certain
    ? t(view.new ? "live.maybe_new" : "live.unlike", { polyp: view.number })
    : earlier
      ? t("live.again", { polyp: view.number, clock: earlier.clock })
      : t("live.new", { polyp: view.number });
  return h(
    "section",
    { class: earlier ? "view again" : "view", "data-key": `view-${view.tracklet}` },
    h("h2", {}, title),
    view.probability < 1 // the first view has no earlier one to compare with
      && h("p", { class: "soft" }, t(view.new ? "live.sure_new" : "live.sure",
        { polyp: view.number, share: share(view.probability) })),
    h(
      "div",
      { class: "pair" },
      figure(numberOf(view.tracklet), t("live.this", { clock: clock(view.start) })),
      earlier && figure(numberOf(earlier.tracklet), t("live.before", { clock: earlier.clock })),
    ),
  );
}

/** Earlier views that changed their polyp when the newest one was linked. */
function revised({ card: newest, revised: all }) {
  const changes = new Map(); // by the polyps before and now, with the number of views
  for (const { time, number_before: before, number: now } of all) {
    if (time !== newest?.time) continue;
    const key = `${before} ${now}`;
    changes.set(key, { before, now, n: (changes.get(key)?.n ?? 0) + 1 });
  }
  return h("div", { class: "news" }, [...changes.values()].map(({ before, now, n }) =>
    h("p", {}, count("live.revised", n, { before, now }))));
}

const polyps = (state) => state.polyps.length > 0 && [
  h("h2", { class: "unseen" }, t("column.polyps")),
  h("div", { class: "polyps" }, state.polyps.map((one) =>
    figure(one.picture,
      `${t("polyp", { n: one.polyp })} · ${count("views", one.views)} · ${t("live.last", { clock: clock(one.last) })}`,
      { "data-key": `polyp-${one.polyp}` }))),
];

/** What is said in the end: links to the report and its review, or where they are once both are
 * no longer served. */
const finished = ({ review, report, folder }, ending) =>
  h("section", { class: "news", id: "finished" },
    ending.map((line) => h("p", {}, h("b", {}, line))),
    review
      ? h("p", {},
          h("a", { href: "/api/report", target: "_blank", id: "report" }, t("live.report")), " ",
          h("a", { href: review, target: "_blank", rel: "noreferrer", id: "review" },
            t("live.review")))
      : [h("p", {}, t("live.report_file"), " ", h("code", {}, report)),
         h("p", {}, t("live.review_command"), " ", h("code", {}, `polyplink review ${folder}`))]);

function render(state) {
  const lines = (of) => of[document.documentElement.lang] ?? of.en;
  const brokeOff = lines(state.broke_off);
  const ending = brokeOff.length > 0 ? [...brokeOff, t("live.finished_early")] : [t("live.finished")];
  const warnings = [...brokeOff, ...lines(state.warnings)];
  show(document.getElementById("notice"), warningList(t("warnings"), warnings));
  const shown = state.finished ?? state;
  show(
    document.getElementById("main"),
    h(
      "div",
      { class: "now" },
      h("h1", {},
        h("span", { class: "figure", id: "count" }, number(shown.count)), " ",
        h("span", { class: "unit" }, count("polyps", shown.count))),
      h("span", { class: "clock" }, t("live.time", { clock: clock(state.time) })),
    ),
    h("p", { class: "range" }, (shown.count > 0 || state.finished) && interval({ ...shown, polyps: shown.count })),
    shown.low !== null
      && lines(state.basis).map((line) => h("p", { class: "small soft" }, withCode(line))),
    state.finished
      ? [!shown.count && h("p", { class: "news" }, t("polyp.none")), finished(state.finished, ending)]
      : [state.open.length > 0 && h("p", { class: "news" }, t("live.open")),
         card(state), revised(state), polyps(state)],
    h("p", { class: "small soft" }, t("device")),
  );
  const now = [
    ...state.finished ? ending : [document.querySelector(".view h2")?.textContent],
    `${number(shown.count)} ${count("polyps", shown.count)}`,
  ].filter(Boolean).map((line) => line.replace(/\.?$/, ".")).join(" ");
  if (now !== said) document.getElementById("live").textContent = said = now;
}

function follow() {
  const states = new EventSource("/api/states");
  let last = null;
  states.onmessage = (event) => {
    last = JSON.parse(event.data);
    render(last);
  };
  states.onerror = () => {
    if (last?.finished) { // the procedure has ended, and so has the server
      states.close();
      render({ ...last, finished: { ...last.finished, review: null } });
    } else show(document.getElementById("notice"), h("p", { class: "warn", role: "alert" }, t("live.lost")));
  };
}

await loadWords();
document.title = t("live.title");
follow();
