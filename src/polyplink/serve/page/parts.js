// What is shown, as functions of the state: the list of procedures, a procedure and its parts.

import { h, reused, warningList, withCode } from "./dom.js";
import { LANGUAGES, clock, count, interval, lasting, moment, number, share, spoken, t }
  from "./words.js";

const HUES = 7;
const TEXTURES = ["plain", "stripes", "dots"];
const VIEWS_SHOWN = 18; // of a polyp, before "show all"
const NEIGHBOURS = 4; // other views of the polyps of a question
const TICKS = [5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600]; // seconds

// -- small parts

/** The open questions: first those whose answer can change the count, the others on request. */
export function shownQuestions({ procedure, further }) {
  const close = procedure.questions.filter((one) => one.close);
  return further ? [...close, ...procedure.questions.filter((one) => !one.close)] : close;
}

/** Whether a question is about one polyp, and not about a link of two. */
export const isDoubt = (question) => question.b === null;

/** What a question asks. */
export const textOf = (question) => t(isDoubt(question) ? "doubt" : "question");

/** The rows of the views that a question shows. */
const viewsAsked = (question) => isDoubt(question) ? [question.a] : [question.a, question.b];

export const pictureOf = (index, row, k, size) =>
  `/api/procedures/${index}/tracklets/${row}/pictures/${k}.jpg?size=${size}`;

export const looks = (place) =>
  `hue-${place % HUES} ${TEXTURES[Math.floor(place / HUES) % TEXTURES.length]}`;

/** The number of a polyp in its colour. */
export const chip = (place) =>
  place === null
    ? h("span", { class: "chip none", "aria-hidden": "true" }, "–")
    : h("span", { class: `chip ${looks(place)}`, "aria-hidden": "true" }, place + 1);

export const polypOf = (view) =>
  view.polyp === null ? t("left_out") : t("polyp", { n: view.polyp + 1 });

/** A button; `key` is shown behind its label and announced. */
export function button(action, label, { key, icon, plain, ...attributes } = {}) {
  return h(
    "button",
    {
      type: "button", "data-do": action, "aria-keyshortcuts": key,
      "aria-label": plain ? label : null, title: plain ? label : null, ...attributes,
    },
    icon && h("span", { class: "icon", "aria-hidden": "true" }, icon),
    !plain && h("span", {}, label),
    key && h("kbd", { "aria-hidden": "true" }, key.toUpperCase()),
  );
}

const picture = (index, view, k, size, alt) =>
  h("img", {
    src: pictureOf(index, view.row, k, size), alt, width: size, height: size,
    srcset: size < 640 && `${pictureOf(index, view.row, k, size)} 1x, `
      + `${pictureOf(index, view.row, k, 640)} 2x`,
    loading: "lazy", decoding: "async", draggable: "false",
  });

/** A small picture of the place in a frame of the recording, else of the whole frame. */
const placeIn = (index, frame) => {
  const address = `/api/procedures/${index}/places/${frame}.jpg`;
  return h("img", {
    src: `${address}?size=160`, srcset: `${address}?size=640 2x`, alt: "", width: 160, height: 160,
    loading: "lazy", decoding: "async", draggable: "false",
  });
};

const describe = (view) =>
  t("view.open", {
    polyp: polypOf(view), time: clock(view.start_s), seconds: lasting(view.end_s - view.start_s),
  });

// -- the bar on top

export function bar(state) {
  const { overview, procedure } = state;
  const at = overview?.procedures.findIndex((one) => one.index === state.index) ?? -1;
  const [before, after] = [overview?.procedures[at - 1], overview?.procedures[at + 1]];
  const many = (overview?.procedures.length ?? 0) > 1;
  return [
    procedure && many
      ? h("nav", { "aria-label": t("all_procedures") },
          h("a", { href: "#/", class: "home", id: "home", "aria-label": t("all_procedures") },
            h("span", { class: "narrow", "aria-hidden": "true" }, "☰"),
            h("span", { class: "wide" }, "‹ ", t("all_procedures"))),
          h("span", { class: "around" },
            neighbour("before", before, "‹", t("previous_procedure")),
            h("b", {}, procedure.id),
            neighbour("after", after, "›", t("next_procedure"))))
      : h("span", { class: "brand" }, t("title")),
    h("span", { class: "grow" }),
    procedure && h("span", { class: "undoing" },
      button("undo", t("undo"), { id: "undo", key: "z", icon: "↶", disabled: !procedure.undo }),
      button("redo", t("redo"), { id: "redo", key: "y", icon: "↷", disabled: !procedure.redo })),
    h("span", { class: "settings" },
      h("select", { id: "language", "aria-label": t("language"), title: t("language") },
        Object.entries(LANGUAGES).map(([value, name]) =>
          h("option", { value, lang: value, selected: value === spoken() }, name))),
      h("select", { id: "theme", "aria-label": t("theme"), title: t("theme") },
        ["auto", "light", "dark"].map((value) =>
          h("option", { value, selected: value === state.theme }, t(`theme.${value}`)))),
      button("keys", t("keys"), { id: "show-keys", key: "?", class: "quiet", plain: true })),
  ];
}

const neighbour = (id, one, sign, label) =>
  one
    ? h("a", { id, href: `#/${one.index}`, "aria-label": `${label}: ${one.id}`, title: label }, sign)
    : h("span", { class: "off", "aria-hidden": "true" }, sign);

// -- all procedures

export function matchingProcedures(state) {
  const wanted = state.search.trim().toLowerCase();
  return state.overview.procedures.filter(
    (one) => one.id.toLowerCase().includes(wanted) && !(state.unfinished && one.done));
}

export function overviewPage(state) {
  const { overview } = state;
  const rows = matchingProcedures(state);
  const next = nextOpen(overview, null);
  return [
    h("section", { class: "hero", "aria-labelledby": "count" },
      h("div", {},
        h("h1", { id: "count" },
          h("span", { class: "figure" }, number(overview.polyps)), " ",
          h("span", { class: "unit" }, count("polyps", overview.polyps), " ",
            t("overview.of", { procedures: count("procedures", overview.procedures.length) }))),
        h("p", { class: "soft" },
          t("overview.done", { done: overview.done, n: overview.procedures.length })),
        h("progress", {
          max: overview.procedures.length, value: overview.done,
          "aria-label": t("overview.done", { done: overview.done, n: overview.procedures.length }),
        })),
      h("div", { class: "actions" },
        next && h("a", { class: "main button", href: `#/${next.index}`, id: "go-on" },
          t("next.after_done", { id: next.id })),
        button("hand_off", t("hand_off"), { id: "hand-off" }))),
    h("div", { class: "filters" },
      h("input", {
        type: "search", id: "search", placeholder: t("overview.search"),
        "aria-label": t("overview.search"), "aria-keyshortcuts": "/", autocomplete: "off",
      }),
      h("label", {}, h("input", { type: "checkbox", id: "unfinished", checked: state.unfinished }),
        t("overview.open"))),
    rows.length
      ? h("table", { class: "procedures", "aria-label": t("all_procedures") },
          h("thead", {}, h("tr", {},
            ["procedure", "polyps", "interval", "questions", "corrections", "duration", "state"]
              .map((name) => h("th", { scope: "col" }, t(`column.${name}`))))),
          h("tbody", {}, rows.map(procedureRow)))
      : h("p", { class: "soft" }, t("overview.none")),
  ];
}

function procedureRow(one) {
  const state = one.done ? "done" : one.corrections ? "begun" : "open";
  const cell = (name, ...inside) =>
    h("td", { class: name, "data-label": t(`column.${name}`) }, ...inside);
  return h("tr", { "data-key": `procedure-${one.index}`, class: state },
    h("th", { scope: "row" }, h("a", { href: `#/${one.index}`, id: `open-${one.index}` }, one.id)),
    cell("polyps", h("b", {}, number(one.polyps))),
    cell("interval", one.corrected ? t("handoff.corrected") : one.low === null ? "–" : one.low === one.high ? number(one.low)
      : t("interval.short", { low: number(one.low), high: number(one.high) })),
    cell("questions", number(one.questions)),
    cell("corrections", number(one.corrections),
      one.conflicts > 0 && h("span", { class: "bad" }, ` ⚠ ${count("conflicts", one.conflicts)}`)),
    cell("duration", clock(one.duration_s)),
    cell("state", h("span", { class: `state ${state}` },
      one.done && h("span", { "aria-hidden": "true" }, "✓ "), t(`overview.state.${state}`))));
}

/** The next procedure that is not finished, after `index` and then from the start. */
export function nextOpen(overview, index) {
  const open = overview.procedures.filter((one) => !one.done && one.index !== index);
  return open.find((one) => index === null || one.index > index) ?? open[0];
}

/** What the 90 % intervals were calibrated on; nothing where none is given. */
const basis = (overview) =>
  overview.basis[spoken()].map((line) => h("p", { class: "soft" }, withCode(line)));

/** What is said where no question is open: more only where that is known to mean something. */
function nothingOpen(state, key) {
  const { ask_below: below, links } = state.overview;
  if (!links) return t(`${key}.unknown`);
  if (below !== null) return t(`${key}.none_below`, { share: share(below) });
  return t(state.procedure.questions.length ? `${key}.none_close` : `${key}.none`);
}

/** How many questions are open. */
export function openQuestions(state) {
  const open = state.procedure.questions.filter((one) => one.close).length;
  return open ? count("questions", open) : nothingOpen(state, "questions");
}

export function notice(state) {
  const warnings = state.overview?.warnings[spoken()] ?? [];
  const n = state.overview?.procedures.length ?? 0;
  const ofOthers = state.procedure && n > 1 && warnings.length > 0;
  return [
    state.gone && h("p", { class: "warn", role: "alert" }, withCode(t(state.gone))),
    state.overview?.simulated && h("p", { class: "warn", role: "note" }, t("simulated")),
    outdated(state.overview),
    ofOthers && h("p", { class: "warn", role: "note" }, t("warnings.of_all", { n })),
    warningList(t("warnings"), warnings),
  ];
}

/** That reviews are not used because a new count has other views. */
function outdated(overview) {
  const names = (overview?.procedures ?? []).filter((one) => one.outdated).map((one) => one.id);
  return names.length > 0 && h("p", { class: "warn outdated", role: "note" },
    count("outdated", names.length,
      { names: names.slice(0, 3).join(", ") + (names.length > 3 ? ", ..." : "") }));
}

export const footer = () => h("footer", {}, h("p", { class: "soft" }, t("device")));

// -- one procedure

export function procedurePage(state) {
  const { procedure } = state;
  return [
    hero(state),
    procedure.conflicts.length > 0 && conflicts(procedure),
    procedure.tracklets.length + procedure.missed.length > 0 && [
      timeline(state),
      h("div", { class: "work" },
        polyps(state),
        h("div", { class: "side" }, questionCard(state))),
    ],
    alarms(state),
    places(state),
    log(procedure),
    researcher(state),
  ];
}

function hero(state) {
  const { procedure, overview } = state;
  const open = procedure.questions.filter((one) => one.close).length;
  const next = procedure.done && nextOpen(overview, procedure.index);
  const views = procedure.groups.reduce((sum, { rows }) => sum + rows.length, 0);
  return h("section", { class: "hero", "aria-labelledby": "count" },
    h("div", {},
      h("h1", { id: "count" },
        h("span", { class: "figure", "data-key": "figure" }, number(procedure.polyps)), " ",
        h("span", { class: "unit" }, count("polyps", procedure.polyps))),
      h("p", { class: "interval" }, interval(procedure)),
      procedure.polyps === 0 && h("p", {}, t("polyp.none")),
      procedure.low !== null && basis(overview),
      h("p", { class: "facts" },
        h("span", {}, t("procedure", { id: procedure.id })),
        h("span", {}, t("length", { time: clock(procedure.duration_s) })),
        h("span", {}, count("views", views)),
        h("span", {}, openQuestions(state)),
        procedure.done && h("span", { class: "state done" },
          h("span", { "aria-hidden": "true" }, "✓ "), t(open ? "log.done" : "done"))),
      !procedure.any_frame && h("p", { class: "soft" }, t("missed.no_recording"))),
    h("div", { class: "actions" },
      open > 0 && !procedure.done &&
        button("to_questions", t("answer.start"), { class: "main", id: "to-questions" }),
      next && h("a", { class: "main button", href: `#/${next.index}`, id: "go-on" },
        t("next.after_done", { id: next.id })),
      procedure.done
        ? button("reopen", t("done.reopen"), { id: "done" })
        : button("done", t("done.mark"), { id: "done", class: open ? "" : "main" }),
      button("hand_off", t("hand_off"), { id: "hand-off" }),
      procedure.any_frame && button("open_recording", t("missed.look"),
        { "data-frame": 0, class: "quiet", id: "recording" }),
      button("print", t("print"), { id: "print", class: "quiet" })));
}

function conflicts(procedure) {
  const entries = new Map(procedure.log.map((entry) => [entry.id, entry]));
  return h("section", { class: "conflicts", role: "alert", "aria-labelledby": "conflicts" },
    h("h2", { id: "conflicts" }, t("conflict.title")),
    h("p", {}, t("conflict.rule")),
    procedure.conflicts.map((one) =>
      h("div", { class: "conflict", "data-key": `conflict-${one.correction}` },
        h("p", {}, t("conflict.same_different")),
        h("ul", {}, [one.correction, ...one.with].map((id) => {
          const entry = entries.get(id);
          return entry && h("li", {}, h("span", {}, correctionText(procedure, entry), " ",
            h("span", { class: "soft" }, moment(entry.at)), " ",
            entry.set_aside && h("b", { class: "tag" }, t("log.set_aside"))),
          button("undo_this", t("log.undo_this"), {
            "data-of": id, id: `conflict-${one.correction}-${id}`,
            "aria-label": `${t("log.undo_this")}: ${correctionText(procedure, entry)}`,
          }));
        })))));
}

// -- the time line

function timeline(state) {
  const { procedure } = state;
  const length = Math.max(procedure.duration_s, ...procedure.tracklets.map((v) => v.end_s), 1);
  const step = TICKS.find((one) => length / one <= 9) ?? 7200;
  const ticks = Array.from({ length: Math.floor(length / step) + 1 }, (_, k) => k * step);
  const views = [...procedure.tracklets].sort((a, b) => a.start_s - b.start_s);
  const lanes = procedure.groups.map((_, place) => [place, views.filter((v) => v.polyp === place)]);
  const out = views.filter((view) => view.polyp === null);
  const leftOut = out.length ? [[null, out]] : [];
  const question = shownQuestions(state)[state.question];
  const pair = question ? viewsAsked(question) : [];
  const bars = [
    ...[...lanes, ...leftOut].flatMap(([, inLane]) => inLane.map((view) => `bar-${view.row}`)),
    ...procedure.missed.map((one) => `bar-${one.id}`),
  ];
  const roving = bars.includes(state.rove.timeline) ? state.rove.timeline : bars[0];
  const lane = (key, place, inside) => h("div", { class: "lane", "data-key": `lane-${key}` },
    chip(place),
    h("div", { class: "track" },
      ticks.map((s) => h("i", { "data-left": (100 * s) / length })), inside));
  const laneOfViews = ([place, inLane]) => lane(place, place, inLane.map((view) => h("button", {
    type: "button", "data-do": "open", "data-row": view.row, id: `bar-${view.row}`,
    class: `bar ${place === null ? "none" : looks(place)}`
      + (pair.includes(view.row) ? " asked" : ""),
    "data-left": (100 * view.start_s) / length,
    "data-width": (100 * (view.end_s - view.start_s)) / length,
    tabindex: roving === `bar-${view.row}` ? 0 : -1,
    title: `${clock(view.start_s)} – ${clock(view.end_s)}`,
    "aria-label": [
      t("timeline.bar", {
        polyp: polypOf(view), start: clock(view.start_s), end: clock(view.end_s),
      }),
      pair.includes(view.row) && t("view.asked"),
    ].filter(Boolean).join(", "),
  })));
  const parts = [spoken(), procedure.id, length, lanes, leftOut, pair, procedure.missed];
  return reused("section", "timeline", parts, () => h("section", {
    class: "timeline", "aria-labelledby": "timeline",
  },
    h("div", { class: "title" }, h("h2", { id: "timeline" }, t("timeline")),
      h("p", { class: "soft hint" }, t("timeline.hint"),
        pair.length > 0 && ` ${t("timeline.asked")}`)),
    h("div", { class: "lanes", "data-rove": "timeline" },
      h("div", { class: "axis", "aria-hidden": "true" }, ticks.map((s) =>
        h("span", { "data-left": (100 * s) / length }, clock(s)))),
      lanes.map(laneOfViews),
      procedure.missed.map((one, k) => lane(one.id, procedure.groups.length + k, h("button", {
        type: "button", "data-do": "open_recording", "data-frame": one.frame,
        id: `bar-${one.id}`, class: `bar ${looks(procedure.groups.length + k)}`,
        "data-left": (100 * one.at_s) / length, "data-width": 0,
        tabindex: roving === `bar-${one.id}` ? 0 : -1,
        title: clock(one.at_s), "aria-label": addedPolyp(procedure.groups.length + k, one),
      }))),
      leftOut.map(laneOfViews))));
}

/** A polyp that the reviewer added, in words. */
const addedPolyp = (place, one) =>
  `${t("polyp", { n: place + 1 })}, ${t("polyp.added", { time: clock(one.at_s) })}`;

// -- polyps as strips of views

function polyps(state) {
  const { procedure } = state;
  const open = new Set(shownQuestions(state).flatMap(viewsAsked));
  return h("section", { class: "polyps", "aria-labelledby": "polyps" },
    h("div", { class: "title" }, h("h2", { id: "polyps" }, t("column.polyps")),
      h("p", { class: "soft" }, t("views.hint"), h("span", { class: "hint" }, " ", t("selected.hint")))),
    state.overview.probes.length > 0 && h("p", { class: "soft" }, t("polyp.probes"),
      state.overview.probes_simulated && h("b", {}, " ", t("probes_simulated"))),
    procedure.polyps === 0 && h("p", { class: "soft" }, t("polyp.none")),
    procedure.groups.map((group, place) => {
      const views = group.rows.map((row) => procedure.tracklets[row])
        .sort((a, b) => a.start_s - b.start_s);
      const all = state.unfolded.has(place) || views.length <= VIEWS_SHOWN + 2;
      const shown = all ? views : views.slice(0, VIEWS_SHOWN);
      const parts = [
        spoken(), procedure.id, views, all, group.size_mm, group.adenoma,
        views.map((view) => [state.selected.has(view.row), open.has(view.row)]),
      ];
      return reused("article", `polyp-${group.rows[0]}-${place}`, parts, () => h("article", {
        class: `polyp ${looks(place)}`, "aria-labelledby": `polyp-${place}`,
      },
      h("header", {}, chip(place),
        h("h3", { id: `polyp-${place}` }, t("polyp", { n: place + 1 })),
        h("p", { class: "soft" },
          seen(clock(group.first_s), clock(group.last_s)),
          " · ", count("views", views.length), reading(group))),
      strip(state, `strip-${place}`, shown, { open, splits: true }),
      views.length > VIEWS_SHOWN + 2 &&
        button("unfold", all ? t("polyp.show_less") : t("polyp.show_all", { n: views.length }),
          { "data-place": place, class: "quiet", id: `unfold-${place}` })));
    }),
    procedure.missed.map((one, k) => missedPolyp(state, one, procedure.groups.length + k)));
}

/** A polyp that was missed, and that the reviewer added. */
function missedPolyp(state, one, place) {
  return h("article", {
    class: `polyp ${looks(place)}`, "aria-labelledby": `polyp-${place}`, "data-key": `missed-${one.id}`,
  },
  h("header", {}, chip(place),
    h("h3", { id: `polyp-${place}` }, t("polyp", { n: place + 1 })),
    h("p", { class: "soft" }, t("polyp.added", { time: clock(one.at_s) })),
    button("undo_this", t("missed.remove"), {
      "data-of": one.id, class: "quiet small", id: `remove-${one.id}`,
      "aria-label": `${t("missed.remove")}: ${addedPolyp(place, one)}`,
    })),
  !state.procedure.recording ? h("p", { class: "soft small" }, t("viewer.missing"))
    : h("ul", { class: "strip" }, h("li", {}, h("div", { class: "tile" }, h("button", {
        type: "button", class: "view", "data-do": "open_recording", "data-frame": one.frame,
        id: `missed-${one.id}`, "aria-label": addedPolyp(place, one),
      }, placeIn(state.index, one.frame))))));
}

/** Size and histology of a polyp, where the weights have probes. */
const seen = (first, last) =>
  t(first === last ? "polyp.seen_at" : "polyp.seen", { first, last });

const reading = (group) => [
  group.size_mm !== null && t("polyp.size", {
    mm: number(group.size_mm, 1), low: number(group.size_low_mm, 1),
    high: number(group.size_high_mm, 1),
  }),
  group.adenoma !== null && t("polyp.adenoma", { p: share(group.adenoma) }),
].filter(Boolean).map((text) => [" · ", text]);

function strip(state, name, views, { open = new Set(), splits = false, under } = {}) {
  const roving = views.some((view) => `view-${view.row}` === state.rove[name])
    ? state.rove[name] : `view-${views[0]?.row}`;
  return h("ul", { class: "strip", "data-rove": name },
    views.map((view, place) =>
      tile(state, view, {
        roving: roving === `view-${view.row}`, open: open.has(view.row),
        split: splits && place > 0, under,
      })));
}

function tile(state, view, { roving, open, split, under }) {
  const [time, selected] = [clock(view.start_s), state.selected.has(view.row)];
  const label = [
    describe(view), open && t("view.asked"), view.decided && t("view.decided"),
  ].filter(Boolean).join(", ");
  return h("li", { "data-key": `tile-${view.row}`, class: selected ? "selected" : "" },
    split && h("button", {
      type: "button", class: "split", "data-do": "split", "data-row": view.row, tabindex: -1,
      "aria-label": t("split.long", { time }), title: t("split.long", { time }),
    }, h("span", { "aria-hidden": "true" }, "✂")),
    h("div", { class: "tile" },
      h("button", {
        type: "button", class: "view", "data-do": "open", "data-row": view.row,
        id: `view-${view.row}`, tabindex: roving ? 0 : -1, "aria-label": label,
      }, picture(state.index, view, view.best, 160, "")),
      h("label", { class: "pick", title: t("view.select.short") }, h("input", {
        type: "checkbox", "data-pick": view.row, id: `pick-${view.row}`, checked: selected,
        tabindex: -1, "aria-label": t("view.select", { time }),
      })),
      h("p", { class: "caption", "aria-hidden": "true" }, h("b", {}, time),
        h("span", { class: "soft" }, `${lasting(view.end_s - view.start_s)} s`),
        open && h("span", { class: "mark", title: t("view.asked") }, "?"),
        view.decided && h("span", { class: "mark", title: t("view.decided") }, "✓")),
      under?.(view)));
}

function alarms(state) {
  const out = state.procedure.tracklets.filter((view) => view.polyp === null)
    .sort((a, b) => a.start_s - b.start_s);
  if (!out.length) return null;
  return h("section", { class: "alarms", "aria-labelledby": "alarms" },
    h("div", { class: "title" },
      h("h2", { id: "alarms" }, t("alarms"), h("span", { class: "soft" }, ` (${out.length})`)),
      h("p", { class: "soft hint" }, t("alarms.hint"))),
    strip(state, "strip-out", out, {
      under: (view) => [
        h("p", { class: "soft small" }, t(view.removed ? "alarms.by_you" : "alarms.by_program")),
        button("is_polyp", t("is_polyp"), {
          "data-row": view.row, id: `polyp-after-all-${view.row}`, class: "small",
        }),
      ],
    }));
}

// -- a question

export function questionCard(state) {
  const { procedure } = state;
  const questions = shownQuestions(state);
  const n = questions.length;
  if (!n) {
    const further = procedure.questions.length;
    return h("section", { class: "question none", "aria-labelledby": "question", id: "card" },
      h("h2", { id: "question", tabindex: -1 }, nothingOpen(state, "question")),
      !procedure.done && h("p", { class: "soft" }, t("question.none.hint")),
      further > 0 && h("p", {},
        button("further", count("question.further", further), { id: "further" })));
  }
  const question = questions[state.question];
  const doubt = isDoubt(question);
  const [a, b] = [procedure.tracklets[question.a], procedure.tracklets[question.b]];
  const other = procedure.polyps + question.change;
  return h("section", { class: "question", "aria-labelledby": "question", id: "card" },
    h("div", { class: "title" },
      h("h2", { id: "question", tabindex: -1 }, textOf(question)),
      h("p", { class: "soft", title: t("question.order") },
        t("question.place", { k: state.question + 1, n }))),
    h("div", { class: "pair" },
      side(state, a, "left", "1", question.members, { alone: doubt }),
      !doubt && side(state, b, "right", "2", question.others)),
    h("p", { class: "meaning" },
      doubt ? t(question.counted ? "doubt.counted" : "doubt.left_out",
        { p: share(question.probability) })
        : t(question.joined ? "question.joined" : "question.apart"), " ",
      question.change === null ? null : question.change === 0
        ? t("question.stays", { n: procedure.polyps })
        : t(doubt ? (question.counted ? "doubt.if_none" : "doubt.if_polyp")
          : question.joined ? "question.if_different" : "question.if_same", { n: other })),
    h("div", { class: "answers", role: "group", "aria-labelledby": "question" },
      button("same", t(doubt ? "doubt.yes" : "same"), { key: "s", id: "same" }),
      button("different", t(doubt ? "not_polyp" : "different"), { key: "d", id: "different" }),
      button("unsure", t("unsure"), { key: "u", id: "unsure" })),
    n > 1 && h("div", { class: "turns" },
      button("question_back", t("question.back"), { key: "p", id: "question-back", class: "quiet" }),
      button("question_later", t("question.later"),
        { key: "n", id: "question-later", class: "quiet" })),
    h("details", { class: "small" }, h("summary", {}, t("details")),
      h("p", { class: "soft" },
        t(doubt ? "researcher.doubt" : "researcher.question", { p: share(question.probability) }),
        " · ", doubt ? a.id : `${a.id}, ${b.id}`)));
}

function side(state, view, name, key, rows, { alone = false } = {}) {
  const k = state.steps.get(view.row) ?? view.best;
  const rest = rows.filter((row) => row !== view.row).slice(0, NEIGHBOURS)
    .map((row) => state.procedure.tracklets[row]);
  const place = alone ? "" : `${t(`question.${name}`)}: `;
  const label = place + describe(view);
  return h("div", { class: "side-of-pair", "data-key": `side-${name}` },
    h("button", {
      type: "button", class: "big", "data-do": "open", "data-row": view.row,
      id: `asked-${name}`, "aria-label": `${label}, ${t("enlarge")}`,
    }, picture(state.index, view, k, 640, "")),
    h("div", { class: "stepping" },
      button("step", t("picture.previous"), {
        icon: "‹", plain: true, "data-row": view.row, "data-by": -1, id: `back-${name}`,
        disabled: view.pictures < 2,
        "aria-label": place + t("picture.previous"),
      }),
      h("span", {
        class: "soft", role: "img",
        "aria-label": t("view.picture", { k: k + 1, n: view.pictures }),
      }, `${k + 1}/${view.pictures}`),
      button("step", t("picture.next"), {
        icon: "›", plain: true, "data-row": view.row, "data-by": 1, id: `on-${name}`, key,
        disabled: view.pictures < 2,
        "aria-label": place + t("picture.next"),
      })),
    h("p", { class: "caption" }, chip(view.polyp), h("b", {}, clock(view.start_s)),
      h("span", { class: "soft" }, `${lasting(view.end_s - view.start_s)} s`),
      !alone && button("not_polyp", t("not_polyp"), {
        "data-row": view.row, class: "quiet small", id: `not-polyp-${name}`,
        "aria-label": `${t("not_polyp")}: ${label}`,
      })),
    rest.length > 0 && h("div", { class: "rest" },
      h("p", { class: "soft small" }, t("question.more")),
      h("ul", {}, rest.map((one) => h("li", { "data-key": `rest-${one.row}` }, h("button", {
        type: "button", class: "view", "data-do": "open", "data-row": one.row,
        "aria-label": describe(one),
      }, picture(state.index, one, one.best, 160, "")))))));
}

/** The places that the reviewer has not answered: those that were added are polyps. */
export function openPlaces(procedure) {
  const added = new Set(procedure.missed.map((one) => one.frame));
  return procedure.places.filter((one) => !added.has(one.frame));
}

/** Places where the detector may have missed a polyp. */
function places(state) {
  const { procedure } = state;
  const open = openPlaces(procedure);
  return procedure.recording && open.length > 0 && h("section", {
    class: "alarms", "aria-labelledby": "places",
  },
    h("div", { class: "title" },
      h("h2", { id: "places" }, t("places"), h("span", { class: "soft" }, ` (${open.length})`)),
      h("p", { class: "soft hint" }, t("places.hint"))),
    h("ul", { class: "strip" }, open.map((one) =>
      h("li", { "data-key": `place-${one.frame}` }, h("div", { class: "tile" }, h("button", {
        type: "button", class: "view", "data-do": "open_recording", "data-frame": one.frame,
        id: `place-${one.frame}`, "aria-label": t("places.open", { time: clock(one.at_s) }),
      }, placeIn(state.index, one.frame))),
      h("p", { class: "caption" }, h("b", {}, clock(one.at_s))),
      button("add_missed", t("missed.add"), {
        "data-frame": one.frame, class: "small", id: `add-${one.frame}`,
        "aria-label": `${t("missed.add")}: ${clock(one.at_s)}`,
      }),
      button("not_missed", t("places.none"), {
        "data-frame": one.frame, class: "small", id: `none-${one.frame}`,
        "aria-label": `${t("places.none")}: ${clock(one.at_s)}`,
      })))));
}

// -- what is selected, messages, folds below

export function selection(state) {
  const n = state.selected.size;
  if (!n || !state.procedure) return [];
  return [h("div", { class: "chosen", role: "toolbar", "aria-label": count("selected", n) },
    h("b", {}, count("selected", n)),
    button("merge", t("merge"), { key: "m", id: "merge", class: "main", disabled: n < 2 }),
    button("not_polyp", t("not_polyp"), { key: "x", id: "not-polyp" }),
    button("move", t("move"), { key: "v", id: "move", disabled: n !== 1 }),
    button("clear", t("selected.clear"), { key: "Esc", id: "clear", class: "quiet" }))];
}

/** A correction in words. */
export function correctionText(procedure, entry) {
  const named = (rows) => rows.slice(0, 6)
    .map((row) => clock(procedure.tracklets[row]?.start_s ?? 0)).join(", ")
    + (rows.length > 6 ? ` … (${rows.length})` : "");
  const kind = entry.kind === "move" && !entry.others.length ? "move_alone" : entry.kind;
  const shown = { split: entry.rows, move: entry.rows, cut: entry.others }[entry.kind];
  return t(`log.${kind}`, {
    time: entry.at_s === null ? "" : clock(entry.at_s),
    rows: named(shown ?? [...entry.rows, ...entry.others]), others: named(entry.others),
  });
}

function log(procedure) {
  const entries = procedure.log.filter((entry) => !["undo", "redo"].includes(entry.kind)).reverse();
  return h("details", { class: "log" },
    h("summary", {}, t("log"), h("span", { class: "soft" }, ` (${entries.filter((entry) => !entry.undone).length})`)),
    entries.length === 0 && h("p", { class: "soft" }, t("log.empty")),
    h("ol", { reversed: true }, entries.map((entry) =>
      h("li", { "data-key": `log-${entry.id}`, class: entry.undone ? "undone" : "" },
        h("span", { class: "what" }, correctionText(procedure, entry)), " ",
        entry.undone && h("b", { class: "tag" }, t("log.undone")),
        entry.set_aside && h("b", { class: "tag" }, t("log.set_aside")),
        h("span", { class: "soft" },
          [entry.reviewer, moment(entry.at)].filter(Boolean).join(", ")),
        !entry.undone && button("undo_this", t("log.undo_this"), {
          "data-of": entry.id, class: "quiet small", id: `undo-${entry.id}`,
          "aria-label": `${t("log.undo_this")}: ${correctionText(procedure, entry)}`,
        })))));
}

function researcher({ procedure, researcher: open }) {
  const columns = ["row", "id", "polyp", "frames", "boxes", "bridged", "probability", "shows_polyp"];
  const cells = (view) => [
    view.row, view.id, view.polyp === null ? "–" : procedure.groups[view.polyp].name,
    `${view.first_frame}–${view.last_frame}`, view.boxes, share(view.bridged),
    share(view.probability), share(view.shows_polyp),
  ];
  return h("details", { class: "researcher", id: "researcher" },
    h("summary", {}, t("researcher")),
    open && h("p", { class: "soft" },
      procedure.fps && t("researcher.fps", {
        frames: number(procedure.n_frames), fps: number(procedure.fps, 2),
      })),
    open && h("div", {
      class: "scroll", tabindex: 0, role: "region", "aria-label": t("researcher"),
    },
      h("table", {},
        h("thead", {}, h("tr", {},
          columns.map((name) => h("th", { scope: "col" }, t(`column.${name}`))))),
        h("tbody", {}, procedure.tracklets.map((view) =>
          h("tr", { "data-key": `row-${view.row}` }, cells(view).map((one) => h("td", {}, one))))))));
}

export function toast({ text, detail, bad, undo }) {
  return h("div", { class: bad ? "message bad" : "message", role: bad ? "alert" : null },
    h("p", {}, text, detail && h("small", { lang: "en" }, detail)),
    undo && button("undo", t("undo"), { key: "z", id: "toast-undo" }),
    bad && button("hideMessage", t("close"), { icon: "×", plain: true, id: "hide-message" }));
}

const titled = (title, ...inside) => [
  h("div", { class: "head" }, h("h2", { id: "dialog-title", tabindex: -1 }, title),
    button("close", t("close"), { icon: "×", plain: true, id: "dialog-close" })),
  ...inside,
];

/** The polyps that a view can be moved to. */
export function moveChoice(state, view) {
  const { procedure } = state;
  return titled(t("move.title", { time: clock(view.start_s) }),
    h("ul", { class: "choices" },
      procedure.groups.map((group, place) => place !== view.polyp && h("li", {},
        h("button", {
          type: "button", "data-do": "move_to", "data-others": group.rows.join(), "data-row": view.row,
          id: `to-${place}`,
        }, picture(state.index, procedure.tracklets[group.best],
          procedure.tracklets[group.best].best, 160, ""), chip(place),
        h("span", {}, t("polyp", { n: place + 1 }),
          h("small", { class: "soft" }, clock(group.first_s)))))),
      h("li", {}, h("button", {
        type: "button", "data-do": "move_to", "data-row": view.row, id: "to-own",
      }, h("span", { class: "blank", "aria-hidden": "true" }, "+"),
      h("span", {}, t("polyp.own"))))));
}

export function handOff(state) {
  const { files, overview } = state;
  const open = overview.procedures.length - overview.done;
  const questions = overview.procedures.reduce((sum, one) => sum + one.questions, 0);
  const folders = Map.groupBy(files ?? [], (file) => file.name.split("/").slice(0, -1)[0] ?? "");
  const purpose = (name) => h("div", { class: "soft" }, t(`hand_off.for.${name}`));
  const link = (file, below) => h("li", {},
    h("a", {
      href: `/api/hand-off/${file.name.split("/").map(encodeURIComponent).join("/")}`,
      target: file.name.endsWith(".html") ? "_blank" : null, rel: "noopener",
    }, file.name), " ",
    h("span", { class: "soft" }, t("hand_off.size", { n: number(Math.ceil(file.bytes / 1024)) })),
    below);
  return titled(t("hand_off"),
    open > 0 && h("p", { class: "warn" }, count("hand_off.unfinished", open)),
    questions > 0 && h("p", { class: "warn" }, count("questions", questions)),
    h("p", { role: "status" }, t(files ? "hand_off.written" : "hand_off.working")),
    files && [
         h("ul", { class: "files" },
           (folders.get("") ?? []).map((file) => link(file, purpose(file.name)))),
         [...folders].filter(([folder]) => folder).map(([folder, inside]) =>
           h("details", { class: "files" },
             h("summary", {}, `${folder} `, h("span", { class: "soft" }, t("hand_off.folder", { n: number(inside.length) })),
               purpose(folder)),
             h("ul", {}, inside.map((file) => link(file)))))]);
}

export function keysSheet() {
  const groups = {
    doubt: [["S", "doubt.yes"], ["D", "not_polyp"], ["U", "unsure"]],
    question: [["S", "same"], ["D", "different"], ["U", "unsure"]],
    "keys.questions": [["1", "keys.left_picture"], ["2", "keys.right_picture"],
      ["N", "P", "keys.question_move"]],
    "column.views": [["←", "→", "↑", "↓", "keys.arrows"], [t("key.enter"), "keys.open"],
      [t("key.space"), "keys.select"], ["X", "not_polyp"], ["B", "split"], ["M", "merge"],
      ["V", "move"], ["Esc", "selected.clear"]],
    viewer: [["←", "→", "keys.step"], [t("key.space"), "viewer.play"],
      [t("key.page_up"), t("key.page_down"), "keys.page"], ["C", "viewer.crop"],
      ["A", "missed.add"], ["G", "similar"], ["X", "not_polyp"], ["B", "split"], ["V", "move"], ["Esc", "close"]],
    places: [["A", "missed.add"], ["X", "places.none"]],
    "keys.everywhere": [["Z", "undo"], ["Y", "redo"], ["[", "]", "keys.procedures"], ["/", "keys.search"],
      ["?", "keys.help"]],
  };
  return titled(t("keys.title"), h("div", { class: "keys" },
    Object.entries(groups).map(([name, keys]) => h("section", {},
      h("h3", {}, t(name)),
      h("dl", {}, keys.map((line) => h("div", {},
        h("dt", {}, line.slice(0, -1).map((key) => h("kbd", {}, key))),
        h("dd", {}, t(line.at(-1))))))))));
}
