// The review desk: state, what is asked of the server, and what clicks and keys do.
//
// Everything shown is a function of the state (parts.js, viewer.js). A correction goes to the
// server, which answers with the procedure solved anew; nothing is decided on the page itself.

import { show } from "./dom.js";
import {
  bar, footer, handOff, isDoubt, keysSheet, matchingProcedures, moveChoice, notice, openPlaces,
  openQuestions, overviewPage, pictureOf, procedurePage, selection, shownQuestions, textOf, toast,
} from "./parts.js";
import { clock, count, interval, loadWords, number, speak, t } from "./words.js";
import { Viewer } from "./viewer.js";

const POLL = 3000; // milliseconds between two looks for corrections of other pages
const SHOWN = 7000; // milliseconds that a message stays
const IDLE = 1000; // milliseconds after a change until pictures not yet scrolled to are loaded
const SETTLE = 1000; // milliseconds that a question takes no answer after another page changed it
const HOVER = 350; // milliseconds of resting on a view before it is enlarged

const $ = (id) => document.getElementById(id);
const state = {
  overview: null, procedure: null, index: null, // index: of the procedure shown; null: the list
  question: 0, turned: 0, further: false, // turned: when another page changed the question shown
  steps: new Map(), // k of the picture shown of a view in a question
  selected: new Set(), unfolded: new Set(), rove: {}, // rove: the one tab stop of each strip
  search: "", unfinished: false, theme: document.documentElement.dataset.theme,
  researcher: false, gone: null, busy: false, files: null, message: null, moving: null,
};

// -- the server

async function fetchJson(path, body) {
  const response = await fetch(path, body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }).catch(() => { throw new Error(t("unreachable")); });
  const answer = await response.json().catch(() => ({}));
  if (response.status === 409) showRecounted();
  if (!response.ok) {
    throw new Error(response.status === 403 ? t("refused") : answer.error ?? response.statusText);
  }
  return answer;
}

/** Show nothing of a count that its folder no longer has, and ask the server no more. */
function showRecounted() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  state.selected.clear();
  Object.assign(state, { gone: "recounted", overview: null, procedure: null, message: null });
  render();
}

/** Show why something failed, unless the page already shows that the folder was counted again. */
function showFailure(error) {
  if (state.gone === "recounted") render(); // now that the words are loaded
  else showMessage({ text: t("failed"), detail: error.message, bad: true });
}

async function correct(correction, { focus } = {}) {
  if (state.busy || state.procedure?.index !== state.index) return; // another one is loading
  state.busy = true;
  document.body.classList.add("busy");
  const { index } = state;
  try {
    const tracklets = state.procedure.tracklets.length;
    const procedure = await fetchJson(`/api/procedures/${index}/corrections`,
      { ...correction, tracklets });
    if (state.index === index) {
      const before = state.procedure.polyps;
      const contradicts = procedure.conflicts.length > state.procedure.conflicts.length;
      const reopened = state.procedure.done && !procedure.done && correction.kind !== "reopen";
      const fresh = newQuestions(correction, state.procedure, procedure);
      const asked = questionShown();
      state.selected.clear();
      take(procedure);
      const next = questionShown();
      const split = procedure.split.map((rows) => t("now.split", {
        times: rows.map((row) => clock(procedure.tracklets[row].start_s)).join(", "),
      }));
      const more = [...split, ...(contradicts ? [t("now.conflict")] : []),
        ...(reopened ? [t("now.reopened")] : [])];
      showMessage({
        text: [`${t("now", { count: summary(procedure) })} ${openQuestions(state)}${fresh}.`, ...more]
          .join(" "),
        undo: correction.kind !== "undo", changed: before !== procedure.polyps, long: more.length > 0,
        asks: next && (!asked || isDoubt(asked) !== isDoubt(next)) ? textOf(next) : "",
      });
      viewer.redraw();
      if (focus) setTimeout(() => $(focus)?.focus());
    }
  } catch (error) {
    showFailure(error);
  } finally {
    state.busy = false;
    document.body.classList.remove("busy");
  }
}

const summary = ({ polyps, low, high }) => low === null
  ? `${number(polyps)} ${count("polyps", polyps)}`
  : t("now.count", {
    n: number(polyps), polyps: count("polyps", polyps), interval: interval({ low, high }),
  });

/** How many questions are open after an answer to one that were not open before; "" for none. */
function newQuestions({ kind }, before, after) {
  const openPairs = (procedure) => procedure.questions.filter((one) => one.close)
    .map(({ a, b }) => [a, b].sort().join());
  const n = openPairs(after).filter((pair) => !openPairs(before).includes(pair)).length;
  return n > 0 && ["same", "different", "unsure"].includes(kind)
    ? ` (${t("now.new_questions", { n: number(n) })})` : "";
}

/** The views by row: a cut and its undoing change them. */
const viewsOf = (procedure) => procedure?.tracklets.map(({ id, pictures }) => [id, pictures]).join();

/** Hold a procedure as the server has it now, and its row in the list. */
function take(procedure) {
  if (viewsOf(procedure) !== viewsOf(state.procedure)) {
    for (const held of [state.steps, state.selected]) held.clear(); // they are by row
  }
  state.procedure = procedure;
  state.question = Math.max(0, Math.min(state.question, shownQuestions(state).length - 1));
  const { overview } = state;
  const row = overview?.procedures.find((one) => one.index === procedure.index);
  if (row) {
    overview.polyps += procedure.polyps - row.polyps;
    overview.done += Number(procedure.done) - Number(row.done);
    Object.assign(row, {
      polyps: procedure.polyps, low: procedure.low, high: procedure.high, done: procedure.done,
      outdated: procedure.outdated, corrected: procedure.corrected,
      questions: procedure.questions.filter((one) => one.close).length,
      conflicts: procedure.conflicts.length, corrections: procedure.corrections,
    });
    overview.version = Math.max(overview.version, procedure.version);
    overview.warnings = procedure.warnings;
  }
}

const questionShown = () => state.procedure && shownQuestions(state)[state.question];

/** Show a question still, or note that another one has taken its place. */
function stay(asked) {
  const place = shownQuestions(state).findIndex(({ a, b }) => a === asked.a && b === asked.b);
  if (place >= 0) state.question = place;
  else state.turned = Date.now();
}

/** Look for corrections made on other pages. */
async function poll() {
  if (document.hidden || state.busy || !state.overview) return;
  let version;
  try {
    ({ version } = await fetchJson("/api/version"));
  } catch (error) {
    if (state.gone === "recounted") return;
    const gone = error.message === t("refused") ? "refused" : "gone"; // refused: started again
    if (state.gone !== gone) Object.assign(state, { gone });
    render();
    return;
  }
  if (state.gone) Object.assign(state, { gone: null });
  else if (version === state.overview.version) return;
  const before = JSON.stringify(state.procedure);
  const asked = questionShown();
  const { index } = state;
  try {
    const overview = await fetchJson("/api/overview");
    const procedure = index === null ? null : await fetchJson(`/api/procedures/${index}`);
    if (state.busy || state.index !== index) return;
    state.overview = overview;
    if (procedure) take(procedure);
    if (asked && procedure) stay(asked);
    if (JSON.stringify(procedure) !== before) showMessage({ text: t("changed_elsewhere") });
    else render();
  } catch { /* the next look will do */ }
}

// -- what is shown

function render() {
  const { procedure, overview } = state;
  const inCard = document.activeElement?.closest("#card");
  $("skip").textContent = t("skip");
  show($("bar"), bar(state));
  show($("notice"), notice(state));
  show($("main"), procedure ? procedurePage(state) : overview ? overviewPage(state) : [], footer());
  show($("selection"), selection(state));
  show($("toast"), state.message ? toast(state.message) : []);
  if (inCard && !document.activeElement?.closest("#card")) { // this question lacks the button
    $("same")?.focus({ preventScroll: true });
  }
  loadRest();
  if (viewer.shown) viewer.render();
  document.body.classList.toggle("choosing", state.selected.size > 0);
  document.title = procedure
    ? `${number(procedure.polyps)} ${count("polyps", procedure.polyps)} · ${procedure.id}`
    : t("title");
}

/** Load the pictures not yet scrolled to as well. */
function loadAll() {
  const pictures = [...document.querySelectorAll("#main img")];
  for (const one of pictures) one.loading = "eager";
  return pictures;
}

let loading = null;
/** Load them after a while: the browser's menu prints only what is loaded. */
function loadRest() {
  clearTimeout(loading);
  loading = setTimeout(loadAll, IDLE);
}

/** Have a screen reader say a text, also the one that it said last. */
function announce(text) {
  $("live").textContent = "";
  requestAnimationFrame(() => { $("live").textContent = text; });
}

let hiding = null;
function showMessage(message) {
  state.message = message;
  render();
  if (!message.bad) announce([message.text, message.asks].filter(Boolean).join(" "));
  if (message.changed) {
    const figure = document.querySelector(".figure");
    figure?.classList.remove("changed");
    requestAnimationFrame(() => figure?.classList.add("changed"));
  }
  clearTimeout(hiding);
  hiding = setTimeout(hideMessage, message.bad || message.long ? 3 * SHOWN : SHOWN);
}

function hideMessage() {
  state.message = null;
  render();
}

async function route() {
  if (!state.overview) return; // not opened yet
  const { procedures } = state.overview;
  const address = /^#\/(\d+)$/.exec(location.hash);
  if (!address && procedures.length === 1) {
    location.replace(`#/${procedures[0].index}`);
    return;
  }
  const index = address ? Number(address[1]) : null;
  if (index === state.index && state.procedure) return;
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  Object.assign(state, { index, question: 0, further: false, rove: {}, message: null });
  for (const held of [state.steps, state.selected, state.unfolded]) held.clear();
  if (index === null) {
    state.procedure = null;
    render();
    fetchJson("/api/overview").then((overview) => { // with the corrections of other pages
      Object.assign(state, { overview });
      render();
    }).catch(() => {});
  } else {
    try {
      const procedure = await fetchJson(`/api/procedures/${index}`);
      if (state.index !== index) return;
      take(procedure);
      render();
    } catch (error) {
      state.procedure = null;
      showFailure(error);
    }
  }
  scrollTo(0, 0);
  $("main").focus({ preventScroll: true });
}

const viewer = new Viewer($("viewer"), {
  fetchJson, state: () => state,
  closed: (row, frame) => { // an element that has gone cannot take the focus back
    if (row === null && !document.activeElement?.matches("body, dialog, dialog *")) return;
    const dismissed = state.procedure?.log.at(-1)?.kind === "not_missed";
    const there = row !== null ? $(`view-${row}`)
      : addedAt(frame) ?? (dismissed ? nextPlace(frame) : null) ?? $("recording");
    there?.focus({ preventScroll: true });
    there?.scrollIntoView({ block: "nearest" });
  },
});

function openDialog(id, parts) {
  show($(id), parts);
  $(id).setAttribute("aria-label", $(id).querySelector("h2").textContent);
  if (!$(id).open) $(id).showModal();
}

// -- what can be done

const rowOf = (element) => element?.dataset.row === undefined ? null : Number(element.dataset.row);

/** The rows that a key means: those selected, else the view that has the focus. */
function targetRows() {
  if (viewer.shown) return viewer.row === null ? [] : [viewer.row];
  if (state.selected.size) return [...state.selected];
  const focused = document.activeElement;
  return focused?.matches(".strip .view[data-row], .bar[data-row]") ? [rowOf(focused)] : [];
}

/** The id of the view after (else before) a row in its strip, to go on from. */
function nextView(row) {
  const item = $(`view-${row}`)?.closest("li");
  return (item?.nextElementSibling ?? item?.previousElementSibling)?.querySelector(".view")?.id;
}

/** The picture of the polyp that was added in a frame. */
const addedAt = (frame) =>
  $(`missed-${state.procedure?.missed.find((one) => one.frame === frame)?.id}`);

/** The picture of the open place after (else before) a frame, to go on from. */
function nextPlace(frame) {
  const open = openPlaces(state.procedure).filter((one) => one.frame !== frame);
  const next = open.find((one) => one.frame > frame) ?? open.at(-1);
  return next ? $(`place-${next.frame}`) : null;
}

/** The frame that a key means: that of the viewer, else that of the place with the focus. */
const targetFrame = () => {
  if (viewer.shown) return viewer.frame;
  const focused = document.activeElement;
  return focused?.matches("[id^=place-]") ? Number(focused.dataset.frame) : null;
};

const answer = async (kind) => {
  const question = questionShown();
  if (!question || Date.now() - state.turned < SETTLE) return; // it is not yet read
  if (isDoubt(question)) {
    const kinds = { same: "polyp", different: "not_polyp", unsure: "unsure" };
    await correct({ kind: kinds[kind], rows: question.members });
  } else await correct({ kind, a: question.a, b: question.b });
  if (!questionShown()) toCard(); // the last one: its buttons have gone, and the card has moved
};

/** Go to the question, or to the text that none is open. */
function toCard() {
  $("card")?.scrollIntoView({ block: "start" });
  ($("same") ?? $("question"))?.focus({ preventScroll: true });
}

const actions = {
  skip: () => $("main").focus(),
  keys: () => openDialog("sheet", keysSheet()),
  close: (element) => element.closest("dialog").close(),
  hideMessage,
  undo: () => state.procedure?.undo && correct({ kind: "undo", of: state.procedure.undo }),
  redo: () => state.procedure?.redo && correct({ kind: "redo", of: state.procedure.redo }),
  undo_this: (element) => correct({ kind: "undo", of: element.dataset.of }, { focus: "redo" }),
  same: () => answer("same"),
  different: () => answer("different"),
  unsure: () => answer("unsure"),
  question_later: () => turnQuestion(1),
  question_back: () => turnQuestion(-1),
  to_questions: toCard,
  further: () => {
    state.further = true;
    render();
    $("same")?.focus({ preventScroll: true });
  },
  step: (element) => {
    const row = rowOf(element);
    const view = state.procedure.tracklets[row];
    const k = (state.steps.get(row) ?? view.best) + Number(element.dataset.by);
    state.steps.set(row, (k + view.pictures) % view.pictures);
    render();
  },
  open: (element) => viewer.open(rowOf(element)),
  open_recording: (element) => viewer.openRecording(Number(element.dataset.frame)),
  add_missed: async (element) => {
    const frame = element ? Number(element.dataset.frame) : targetFrame();
    if (frame === null || state.procedure.missed.some((one) => one.frame === frame)) return;
    viewer.playing = false;
    await correct({ kind: "missed", frame });
    if (!viewer.shown) addedAt(frame)?.focus();
  },
  not_missed: async (element) => {
    const frame = element ? Number(element.dataset.frame) : targetFrame();
    if (!openPlaces(state.procedure).some((one) => one.frame === frame)) return;
    const next = nextPlace(frame)?.id ?? "polyps";
    await correct({ kind: "not_missed", frame });
    if (!viewer.shown) $(next)?.focus();
  },
  open_alike: async (element) => {
    const index = Number(element.dataset.index);
    if (index !== state.index) {
      const arrived = new Promise((done) => {
        addEventListener("hashchange", () => done(), { once: true });
      });
      location.hash = `#/${index}`;
      await arrived;
      await routed;
    }
    viewer.open(rowOf(element));
  },
  merge: () => {
    const rows = [...state.selected];
    if (rows.length > 1) correct({ kind: "merge", rows }, { focus: `view-${rows[0]}` });
  },
  not_polyp: async (element) => {
    const row = rowOf(element);
    const rows = row === null ? targetRows() : [row];
    if (!rows.length) return;
    const asked = element?.closest?.(".pair");
    const focus = viewer.shown ? null : asked ? "same" : nextView(rows.at(-1)) ?? "polyps";
    await correct({ kind: "not_polyp", rows }, { focus });
    if (asked && !questionShown()) toCard();
  },
  is_polyp: (element) => {
    const row = rowOf(element);
    correct({ kind: "polyp", rows: [row] }, { focus: viewer.shown ? null : `view-${row}` });
  },
  split: (element) => split(rowOf(element)),
  move: (element) => {
    const row = rowOf(element) ?? (targetRows().length === 1 ? targetRows()[0] : null);
    const view = state.procedure?.tracklets[row];
    if (view && view.polyp !== null) openDialog("choice", moveChoice(state, view));
  },
  move_to: (element) => {
    const row = rowOf(element);
    // The views of the polyp when the choice was shown: a correction on another page may have
    // changed its number since.
    const others = element.dataset.others?.split(",").map(Number) ?? [];
    $("choice").close();
    correct({ kind: "move", row, others }, { focus: viewer.shown ? null : `view-${row}` });
  },
  clear: () => { state.selected.clear(); render(); },
  unfold: (element) => {
    const place = Number(element.dataset.place);
    if (!state.unfolded.delete(place)) state.unfolded.add(place);
    render();
  },
  done: () => correct({ kind: "done" }),
  reopen: () => correct({ kind: "reopen" }),
  print: printAll,
  hand_off: async () => {
    state.files = null;
    openDialog("sheet", handOff(state));
    try {
      state.files = (await fetchJson("/api/hand-off", {})).files;
      if ($("sheet").open) show($("sheet"), handOff(state));
    } catch (error) {
      $("sheet").close();
      showFailure(error);
    }
  },
  viewer_turn: (element) => viewer.turn(Number(element.dataset.by)),
  viewer_step: (element) => viewer.step(Number(element.dataset.by)),
  viewer_play: () => viewer.play(),
  viewer_close_up: () => viewer.toggle(),
  viewer_alike: () => viewer.findAlike(),
  cut: () => { // the tracklet itself, from the picture shown on
    const { row, at, view, closeUp } = viewer;
    if ($("viewer-cut")?.disabled ?? true) return;
    viewer.dialog.close();
    correct({ kind: "cut", row, ...closeUp ? { k: at } : { frame: view.first_frame + at } });
  },
};

/** Print once every picture is loaded. */
async function printAll() {
  const pictures = loadAll();
  await Promise.allSettled(pictures.map((one) => one.decode()));
  print();
}

/** From this view on it is another polyp than before. */
function split(row) {
  const view = state.procedure.tracklets[row];
  if (!view || view.polyp === null) return;
  const rows = [...state.procedure.groups[view.polyp].rows]
    .sort((a, b) => state.procedure.tracklets[a].start_s - state.procedure.tracklets[b].start_s);
  const at = rows.indexOf(row);
  if (at > 0) {
    correct({ kind: "split", rows: rows.slice(at), others: rows.slice(0, at) },
      { focus: `view-${row}` });
  }
}

function turnQuestion(by) {
  const n = state.procedure ? shownQuestions(state).length : 0;
  if (n < 2) return;
  state.question = (state.question + by + n) % n;
  render();
  announce(`${textOf(questionShown())} ${t("question.place", { k: state.question + 1, n })}`);
}

function turnProcedure(id) {
  $(id)?.click();
}

// -- clicks, keys, hovering

document.addEventListener("click", (event) => {
  const element = event.target.closest("[data-do]");
  if (element) actions[element.dataset.do]?.(element);
  else if (event.target.nodeName === "DIALOG") event.target.close(); // beside its content
});

document.addEventListener("change", (event) => {
  const { target } = event;
  if (target.dataset.pick !== undefined) pick(Number(target.dataset.pick), target.checked);
  if (target.id === "unfinished") { state.unfinished = target.checked; render(); }
  if (target.id === "language") {
    remember("language", target.value);
    speak(target.value);
    render();
  }
  if (target.id === "theme") {
    remember("theme", target.value);
    state.theme = document.documentElement.dataset.theme = target.value;
    render();
  }
});

document.addEventListener("toggle", (event) => { // its table is made once it is opened
  if (event.target.id !== "researcher") return;
  state.researcher = event.target.open;
  render();
}, true);

document.addEventListener("input", (event) => {
  if (event.target.id !== "search") return;
  state.search = event.target.value;
  render();
  announce(count("procedures", matchingProcedures(state).length));
});

function pick(row, chosen) {
  if (chosen) state.selected.add(row);
  else state.selected.delete(row);
  render();
  announce(count("selected", state.selected.size));
}

/** A choice that the server reads when the page is opened again, on any port of this machine. */
function remember(name, value) {
  document.cookie = `polyplink-${name}=${value}; path=/; max-age=31536000; samesite=strict`;
}

const keys = {
  s: actions.same, d: actions.different, u: actions.unsure, n: actions.question_later,
  p: actions.question_back, 1: () => $("on-left")?.click(), 2: () => $("on-right")?.click(),
  z: actions.undo, y: actions.redo, m: actions.merge,
  x: () => targetRows().length || !state.procedure ? actions.not_polyp() : actions.not_missed(null),
  v: () => actions.move(), a: () => state.procedure && actions.add_missed(null),
  b: () => {
    if (viewer.shown) actions.cut();
    else if (targetRows().length === 1) split(targetRows()[0]);
  },
  Escape: () => state.selected.size && actions.clear(),
  "?": actions.keys, "/": () => $("search")?.focus(),
  "[": () => turnProcedure("before"), "]": () => turnProcedure("after"),
};
const IN_VIEWER = new Set(["a", "x", "v", "b", "z", "y", "?"]);

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (target.matches("input[type=search], select") || event.altKey) {
    if (key === "Enter" && target.id === "search") {
      const [first] = matchingProcedures(state);
      if (first) location.hash = `#/${first.index}`;
    }
    return;
  }
  const name = key.length === 1 ? key.toLowerCase() : key;
  if (event.ctrlKey || event.metaKey) {
    if (name === "p") { event.preventDefault(); printAll(); }
    if ($("viewer").open || !document.querySelector("dialog[open]")) {
      if (name === "z" && !event.shiftKey) { event.preventDefault(); actions.undo(); }
      if (name === "y" || (name === "z" && event.shiftKey)) {
        event.preventDefault();
        actions.redo();
      }
    }
    return;
  }
  if ($("sheet").open || $("choice").open) return;
  if (viewer.shown) {
    if (viewer.key(event) || !IN_VIEWER.has(name)) return;
  } else if (key.startsWith("Arrow") && rove(event)) {
    event.preventDefault();
    return;
  } else if (key === " " && target.matches(".strip .view[data-row]")) {
    event.preventDefault();
    pick(rowOf(target), !state.selected.has(rowOf(target)));
    return;
  }
  if (!(name in keys)) return;
  if (name !== "Escape") event.preventDefault();
  keys[name]();
});

/** Arrow keys go from view to view (and from bar to bar), also up and down between strips. */
function rove(event) {
  const { target, key } = event;
  const group = target.closest("[data-rove], .strip");
  if (!group || !target.matches(".view, .bar")) return false;
  const kind = target.matches(".bar") ? ".bar" : "main .strip .view";
  const from = target.getBoundingClientRect();
  let best = null;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const all = [...group.querySelectorAll(kind)];
    best = all[all.indexOf(target) + (key === "ArrowRight" ? 1 : -1)];
  } else {
    const sign = key === "ArrowDown" ? 1 : -1;
    let least = Infinity;
    for (const other of document.querySelectorAll(kind)) {
      const box = other.getBoundingClientRect();
      const down = sign * (box.top - from.top);
      const cost = down * 1000 + Math.abs(box.left + box.width / 2 - from.left - from.width / 2);
      if (down > 4 && cost < least) [best, least] = [other, cost];
    }
  }
  best?.focus();
  return true;
}

document.addEventListener("focusin", ({ target }) => {
  const group = target.closest("[data-rove]");
  if (!group || !target.matches(".view, .bar")) return;
  for (const other of group.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  target.tabIndex = 0;
  state.rove[group.dataset.rove] = target.id;
});

// A view is enlarged beside the pointer while it rests there; a tap opens the viewer instead.
let resting = null;
function enlarge(element) {
  const row = rowOf(element);
  const view = state.procedure?.tracklets[row];
  if (!view || document.querySelector("dialog[open]")) return;
  const image = new Image();
  image.src = pictureOf(state.index, row, view.best, 640);
  image.alt = "";
  const box = element.getBoundingClientRect();
  const side = Math.min(400, innerWidth - 40, innerHeight - 40);
  const loupe = $("loupe");
  const right = box.right + 12 + side < innerWidth;
  loupe.style.width = loupe.style.height = `${side}px`;
  loupe.style.left = `${Math.max(8, right ? box.right + 12 : box.left - 12 - side)}px`;
  loupe.style.top = `${Math.max(8, Math.min(box.top, innerHeight - side - 20))}px`;
  image.decode().then(() => {
    if (resting === element) {
      loupe.replaceChildren(image);
      loupe.classList.add("shown");
    }
  }).catch(() => {});
}

function settle() {
  resting = null;
  $("loupe").classList.remove("shown");
}

document.addEventListener("pointerover", (event) => {
  const element = event.pointerType === "mouse" ? event.target.closest(".strip .view, .rest .view")
    : null;
  if (element === resting) return;
  settle();
  if (!element) return;
  resting = element;
  setTimeout(() => { if (resting === element) enlarge(element); }, HOVER);
});
addEventListener("scroll", settle, { passive: true });
document.addEventListener("click", settle);

// -- start

let routed = Promise.resolve();
addEventListener("hashchange", () => { routed = route(); });
const [, overview] = await Promise.all([
  loadWords(), fetchJson("/api/overview").catch((error) => error),
]);
if (overview instanceof Error) {
  showFailure(overview);
} else {
  state.overview = overview;
  await route();
  setInterval(poll, POLL);
  document.addEventListener("visibilitychange", poll);
}
