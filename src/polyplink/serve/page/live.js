// The page of a running procedure: shows each state as it comes, and nothing of its own.

import { h, show } from "./dom.js";
import { clock, count, interval, loadWords, number, share, t } from "./words.js";

const picture = (id, alt) => h("img", { src: `/api/pictures/${id}.jpg`, alt, loading: "lazy" });
const numberOf = (tracklet) => Number(tracklet.slice(tracklet.lastIndexOf(":") + 1));

let said = null; // the tracklet that was announced last

/** The newest view, and beside it the earlier one that it looks like. */
function card({ card: view, finished: ended }) {
  if (!view) return h("p", { class: "news" }, t(ended ? "polyp.none" : "live.waiting"));
  const earlier = view.seen_before;
  const title = !view.certain
    ? t("live.unlike", { polyp: view.number })
    : earlier
      ? t("live.again", { polyp: view.number, clock: earlier.clock })
      : t("live.new", { polyp: view.number });
  return h(
    "section",
    { class: earlier ? "view again" : "view", "data-key": `view-${view.tracklet}` },
    h("h2", {}, title),
    view.probability < 1 // the first view has no earlier one to compare with
      && h("p", { class: "soft" }, t("live.sure", { polyp: view.number, share: share(view.probability) })),
    h(
      "div",
      { class: "pair" },
      h(
        "figure",
        {},
        picture(numberOf(view.tracklet), ""),
        h("figcaption", { class: "small soft" }, t("live.before", { clock: clock(view.start) })),
      ),
      earlier &&
        h(
          "figure",
          {},
          picture(numberOf(earlier.tracklet), ""),
          h("figcaption", { class: "small soft" }, t("live.before", { clock: earlier.clock })),
        ),
    ),
  );
}

function polyps(state) {
  return h(
    "div",
    { class: "polyps" },
    state.polyps.map((one) =>
      h(
        "figure",
        { "data-key": `polyp-${one.polyp}` },
        picture(one.picture, t("live.polyp", { polyp: one.polyp })),
        h(
          "figcaption",
          { class: "small" },
          `${t("live.polyp", { polyp: one.polyp })} · ${count("views", one.views)} · ${t("live.last", { clock: clock(one.last) })}`,
        ),
      ),
    ),
  );
}

/** What is said in the end: links to the report and its review, or where they are once both are
 * no longer served. */
const finished = ({ review, report, folder }) =>
  h("section", { class: "news", id: "finished", role: "status" },
    h("p", {}, h("b", {}, t("live.finished"))),
    review
      ? h("p", {},
          h("a", { href: "/api/report", target: "_blank", id: "report" }, t("live.report")), " ",
          h("a", { href: review, target: "_blank", rel: "noreferrer", id: "review" },
            t("live.review")))
      : [h("p", {}, t("live.report_file"), " ", h("code", {}, report)),
         h("p", {}, t("live.review_command"), " ", h("code", {}, `polyplink review ${folder}`))]);

function render(state) {
  const lines = (of) => of[document.documentElement.lang] ?? of.en;
  const warned = lines(state.warnings);
  show(document.getElementById("notice"), warned.length > 0 && h(
    "ul", { class: "warn", role: "note", "aria-label": t("warnings") },
    warned.map((line) => h("li", {}, line))));
  const shown = state.finished ?? state;
  const revised = state.revised.map((one) =>
    h("p", {}, t("live.revised", { clock: clock(one.time), before: one.number_before, now: one.number })),
  );
  show(
    document.getElementById("main"),
    h(
      "div",
      { class: "now" },
      h("h1", {},
        h("span", { class: "figure", id: "count" }, number(shown.count)), " ",
        h("span", { class: "unit" }, count("polyps", shown.count))),
      h("span", { class: "clock" }, clock(state.time)),
    ),
    h("p", { class: "range" }, shown.count > 0 && interval(shown)),
    lines(state.basis).map((line) => h("p", { class: "small soft" }, line)),
    state.finished && finished(state.finished),
    !state.finished && state.open.length > 0 && h("p", { class: "news" }, t("live.open")),
    card(state),
    h("div", { class: "news" }, revised),
    polyps(state),
    h("p", { class: "small soft" }, t("device")),
  );
  if (state.card && state.card.tracklet !== said) {
    said = state.card.tracklet;
    document.getElementById("live").textContent = document.querySelector(".view h2").textContent;
  }
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
    } else show(document.getElementById("notice"), h("p", { class: "warn" }, t("live.lost")));
  };
}

await loadWords();
document.title = t("live.title");
follow();
