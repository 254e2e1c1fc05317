// The viewer of one view: the recording at its second with the box drawn, or its close-ups;
// stepping, playing, and the views that look like it. Also the viewer of a whole recording, in
// which a reviewer looks for polyps that were missed.

import { h, show } from "./dom.js";
import { button, chip, looks, openPlaces, pictureOf, polypOf } from "./parts.js";
import { clock, number, share, t } from "./words.js";

const CLOSE_UPS_A_SECOND = 5;
const FRAMES_A_SECOND = 12; // drawn while playing; the recording keeps its speed
const AHEAD = 3; // pictures fetched before they are asked for
const CACHED = 40; // pictures in memory
const LEAP = 10; // seconds of a whole recording that Page up and Page down go

export class Viewer {
  /** `fetchJson(path)` asks the server; `state()` is the state of the page. */
  constructor(dialog, { fetchJson, state, closed }) {
    Object.assign(this, {
      dialog, fetchJson, state, pictures: new Map(), boxes: new Map(), playing: false,
    });
    dialog.addEventListener("close", () => {
      this.playing = false;
      this.pictures.clear();
      this.boxes.clear();
      closed(this.row, this.at);
    });
    dialog.addEventListener("input", (event) => {
      if (event.target.id === "viewer-range") this.go(Number(event.target.value));
    });
  }

  get shown() { return this.dialog.open; }
  get view() {
    return this.row === null ? this.recording() : this.state().procedure?.tracklets[this.row];
  }

  /** The whole recording as a view of no polyp. */
  recording() {
    const { n_frames: n, duration_s: end } = this.state().procedure;
    return { row: null, polyp: null, start_s: 0, end_s: end, first_frame: 0, last_frame: n - 1 };
  }

  /** The frame of the recording that is shown; null for a close-up. */
  get frame() { return this.closeUp ? null : this.view.first_frame + this.at; }

  async open(row) {
    const view = this.state().procedure.tracklets[row];
    if (!view) return;
    const closeUp = !this.state().procedure.recording;
    this.begin({ row, closeUp, at: closeUp ? view.best : 0 });
    if (this.closeUp) return this.go(this.at);
    try {
      const frames = [...(await this.boxesOf(view)).keys()];
      if (this.row !== row) return;
      const best = view.pictures > 1 ? view.best / (view.pictures - 1) : 0.5;
      this.at = frames[Math.round(best * (frames.length - 1))] - view.first_frame;
    } catch (error) {
      this.fallBack(error);
    }
    return this.go(this.at);
  }

  /** Show the whole recording, at a frame. */
  openRecording(frame) {
    this.begin({ row: null, closeUp: false, at: frame });
    return this.go(frame);
  }

  /** Show the dialog for a view, or for the whole recording (`row` is null), without a picture. */
  begin({ row, closeUp, at }) {
    Object.assign(this, { row, closeUp, at, alike: null, playing: false, trouble: null });
    if (!this.shown) this.dialog.showModal();
    this.stage()?.replaceChildren();
    this.render();
  }

  /** The boxes of a view by frame. */
  async boxesOf({ id, row, last_frame: last }) {
    const key = `${id} ${last}`; // a cut and its undoing change where the view ends
    if (!this.boxes.has(key)) {
      const { boxes } = await this.fetchJson(
        `/api/procedures/${this.state().index}/tracklets/${row}/boxes`);
      this.boxes.set(key, new Map(boxes.map(([frame, ...box]) => [frame, box])));
    }
    return this.boxes.get(key);
  }

  /**
   * The boxes in a frame, and what they look like: that of the view, or in a whole recording
   * those of every counted view, and of a place where a polyp may have been missed.
   */
  async boxesIn(frame) {
    const whole = this.row === null;
    const views = whole ? this.viewsAt(frame) : [this.view];
    const boxes = await Promise.all(views.map(async (view) =>
      [(await this.boxesOf(view)).get(frame), whole ? looks(view.polyp) : ""]));
    const places = whole ? this.state().procedure.places.filter((one) => one.frame === frame) : [];
    return [...boxes, ...places.map(({ box }) => [box, "maybe"])].filter(([box]) => box);
  }

  fallBack(error) {
    Object.assign(this, { closeUp: true, trouble: error.message, at: this.view.best });
    this.playing = false;
  }

  get length() {
    return this.closeUp ? this.view.pictures : this.view.last_frame - this.view.first_frame + 1;
  }

  /** Seconds of the recording at a position. */
  time(at) {
    const { fps } = this.state().procedure;
    const { start_s: start, end_s: end, first_frame: first } = this.view;
    if (!this.closeUp && fps) return (first + at) / fps;
    return start + (end - start) * (this.length > 1 ? at / (this.length - 1) : 0);
  }

  address(at) {
    return this.closeUp
      ? pictureOf(this.state().index, this.row, at, 640)
      : `/api/procedures/${this.state().index}/frames/${this.view.first_frame + at}.jpg`;
  }

  /** The picture at a position, decoded; kept for stepping back. */
  async picture(at) {
    const address = this.address(at);
    let image = this.pictures.get(address);
    if (!image) {
      image = new Image();
      image.src = address;
      this.pictures.set(address, image);
      while (this.pictures.size > CACHED) this.pictures.delete(this.pictures.keys().next().value);
    }
    try {
      await image.decode();
    } catch (error) {
      this.pictures.delete(address);
      throw error;
    }
    return image;
  }

  /** Show a position; where it was replaced by a later one meanwhile, nothing. */
  async go(at) {
    this.at = (at + this.length) % this.length;
    const [row, place, closeUp] = [this.row, this.at, this.closeUp];
    this.render();
    let image;
    let boxes = [];
    try {
      image = await this.picture(place);
      if (!closeUp) boxes = await this.boxesIn(this.view.first_frame + place);
    } catch (error) {
      if (this.row !== row || this.at !== place || !this.shown || this.closeUp !== closeUp) return;
      if (closeUp || row === null || this.stage().childElementCount) {
        this.stage().replaceChildren(h("p", {}, t("viewer.missing"))); // of a set of single frames
        return;
      }
      this.fallBack(error);
      await this.go(this.at);
      return;
    }
    if (this.row !== row || this.at !== place || this.closeUp !== closeUp || !this.shown) return;
    this.draw(image, boxes);
    const by = this.playing ? this.stride : 1;
    for (let next = place + by; next <= place + AHEAD * by && next < this.length; next += by) {
      this.picture(next).catch(() => {});
    }
  }

  /** Show the boxes of a whole recording as they are after a correction. */
  redraw() {
    if (this.shown && this.row === null && !this.playing) this.go(this.at);
  }

  stage() { return this.dialog.querySelector(".stage"); }

  draw(image, boxes) {
    const shown = this.row === null ? t("viewer.recording") : polypOf(this.view);
    image.alt = t("viewer.alt", { polyp: shown, time: clock(this.time(this.at)) });
    const { width, height } = this.state().procedure;
    const frame = h("div", { class: "picture" }, boxes.length > 0 && h(
      "svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
      boxes.map(([[left, top, across, down], look]) => ["under", "over"].map((kind) => h("rect", {
        class: `${kind} ${look}`, x: left, y: top, width: across, height: down,
      }))),
    ));
    this.stage()?.replaceChildren(frame);
    frame.prepend(image); // last: in the inert document of `h` it would be loaded again
  }

  get fps() { return this.state().procedure.fps ?? 25; }

  /** Pictures from one that is drawn to the next while playing. */
  get stride() { return this.closeUp ? 1 : Math.max(1, Math.round(this.fps / FRAMES_A_SECOND)); }

  /** Play or pause; a view begins again after its end, and a whole recording stops there. */
  async play() {
    this.playing = !this.playing;
    this.render();
    const { stride, row } = this;
    const wait = this.closeUp ? 1000 / CLOSE_UPS_A_SECOND : (1000 * stride) / this.fps;
    if (row === null && this.playing && this.at === this.length - 1) await this.go(0);
    while (this.playing && this.shown && this.row === row) {
      const due = performance.now() + wait;
      const next = this.at + stride;
      if (row === null && next >= this.length) {
        this.step(this.length - 1 - this.at);
        return;
      }
      await this.go(next >= this.length ? 0 : next);
      await new Promise((done) => { setTimeout(done, Math.max(0, due - performance.now())); });
    }
  }

  toggle() {
    if (!this.state().procedure.recording || this.trouble) return;
    this.playing = false;
    const share = this.length > 1 ? this.at / (this.length - 1) : 0;
    this.closeUp = !this.closeUp;
    this.go(Math.round(share * (this.length - 1)));
  }

  /** The views of the same polyp, or those left out, in order of time. */
  around() {
    return this.state().procedure.tracklets.filter((one) => one.polyp === this.view.polyp)
      .sort((a, b) => a.start_s - b.start_s);
  }

  turn(by) {
    if (this.row === null) {
      const frames = Math.round(LEAP * this.fps);
      this.playing = false;
      this.go(Math.max(0, Math.min(this.length - 1, this.at + by * frames)));
      return;
    }
    const views = this.around();
    const next = views[views.findIndex((one) => one.row === this.row) + by];
    if (next) this.open(next.row);
  }

  async findAlike() {
    const { row } = this;
    const { index } = this.state();
    const alike = await this.fetchJson(`/api/procedures/${index}/tracklets/${row}/similar`);
    if (this.row !== row) return;
    this.alike = alike;
    this.render();
    this.dialog.querySelector(".alike")?.scrollIntoView({ block: "nearest" });
    this.dialog.querySelector(".alike button")?.focus({ preventScroll: true });
  }

  /** Handle a key of the viewer; whether it was one. */
  key(event) {
    if (event.target.id === "viewer-range" && event.key.startsWith("Arrow")) return false;
    const actions = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      Home: () => this.step(-this.at), End: () => this.step(this.length - 1 - this.at),
      PageUp: () => this.turn(-1), PageDown: () => this.turn(1),
      " ": () => event.target.matches("button, summary, a, input") ? null : this.play(),
      ...this.row === null ? {} : { c: () => this.toggle(), g: () => this.findAlike() },
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return false;
    if (event.key === " " && event.target.matches("button, summary, a, input")) return false;
    event.preventDefault();
    action();
    return true;
  }

  step(by) {
    this.playing = false;
    this.go(this.at + by);
  }

  render() {
    const { view } = this;
    const { procedure, index } = this.state();
    if (!view || !this.shown) return;
    const whole = this.row === null;
    const views = this.around();
    const place = views.findIndex((one) => one.row === this.row);
    const picture = t("view.picture", { k: this.at + 1, n: this.length });
    const { frame } = this;
    const added = procedure.missed.find((one) => one.frame === frame);
    show(this.dialog,
      h("div", { class: "head" }, whole ? this.inView().map(chip) : chip(view.polyp),
        h("h2", { id: "viewer-title", tabindex: -1 },
          whole ? t("viewer.recording") : polypOf(view), " ",
          h("span", { class: "soft" }, whole ? this.namesInView()
            : `${clock(view.start_s)} – ${clock(view.end_s)}`)),
        button("close", t("close"), { icon: "×", plain: true, id: "viewer-close" })),
      h("div", { class: "stage", "data-own": true }),
      h("div", { class: "controls" },
        button("viewer_turn", whole ? t("viewer.leap_back", { n: LEAP }) : t("viewer.view_back"), {
          icon: "«", plain: true, "data-by": -1, id: "viewer-before",
          disabled: !whole && place < 1,
        }),
        button("viewer_step", t("viewer.step_back"),
          { icon: "‹", plain: true, "data-by": -1, id: "viewer-back" }),
        button("viewer_play", t(this.playing ? "viewer.pause" : "viewer.play"),
          { icon: this.playing ? "❚❚" : "▶\uFE0E", plain: true, id: "viewer-play" }),
        button("viewer_step", t("viewer.step_on"),
          { icon: "›", plain: true, "data-by": 1, id: "viewer-on" }),
        button("viewer_turn", whole ? t("viewer.leap_on", { n: LEAP }) : t("viewer.view_on"), {
          icon: "»", plain: true, "data-by": 1, id: "viewer-after",
          disabled: !whole && place >= views.length - 1,
        }),
        h("input", {
          type: "range", id: "viewer-range", min: 0, max: this.length - 1, step: 1,
          "aria-label": t(whole ? "viewer.position.recording" : "viewer.position"), "aria-valuetext": `${clock(this.time(this.at))}, ${picture}`,
        }),
        h("span", { class: "where" }, h("b", {}, clock(this.time(this.at))),
          h("span", { class: "soft" }, ` · ${picture}`))),
      !whole && (!procedure.recording || this.trouble)
        ? h("p", { class: "soft small" }, t("viewer.crop_only")) : null,
      h("div", { class: "actions" },
        frame !== null && button("add_missed", t(added ? "missed.added" : "missed.add"),
          { key: "a", "data-frame": frame, id: "viewer-add", disabled: Boolean(added) }),
        whole && openPlaces(procedure).some((one) => one.frame === frame)
          && button("not_missed", t("places.none"),
            { key: "x", "data-frame": frame, id: "viewer-none" }),
        whole ? null : view.polyp === null
          ? button("is_polyp", t("is_polyp"), { "data-row": view.row, id: "viewer-polyp" })
          : [button("not_polyp", t("not_polyp"),
               { key: "x", "data-row": view.row, id: "viewer-not-polyp" }),
             button("move", t("move"), { key: "v", "data-row": view.row, id: "viewer-move" }),
             view.pictures > 1 && button("cut", t("split"),
               { key: "b", id: "viewer-cut", disabled: this.at < 1, title: t("cut") })],
        !whole && procedure.recording && !this.trouble && button("viewer_close_up",
          t(this.closeUp ? "viewer.recording" : "viewer.crop"), { key: "c", id: "viewer-crop" }),
        !whole && button("viewer_alike", t("similar"), { key: "g", id: "viewer-alike" })),
      h("p", { class: "soft", role: "status" }, this.state().message?.text),
      this.alike && this.gallery(index, view),
      h("details", { class: "small" }, h("summary", {}, t("details")),
        h("p", { class: "soft" },
          whole ? t("researcher.frame", { n: frame }) : this.facts(view).join(" · "))));
    this.dialog.setAttribute("aria-label", t("viewer"));
    const range = this.dialog.querySelector("#viewer-range");
    if (range) range.value = this.at;
  }

  /** The counted views that a frame belongs to. */
  viewsAt(frame) {
    return this.state().procedure.tracklets.filter((one) =>
      one.polyp !== null && one.first_frame <= frame && frame <= one.last_frame);
  }

  /** The polyps that are counted in the frame shown. */
  inView() {
    const { frame } = this;
    const { groups, missed } = this.state().procedure;
    const counted = this.viewsAt(frame).map((one) => one.polyp);
    const added = missed.flatMap((one, k) => one.frame === frame ? [groups.length + k] : []);
    return [...new Set([...counted, ...added])];
  }

  namesInView() {
    const names = this.inView().map((place) => t("polyp", { n: place + 1 }));
    return names.length ? names.join(", ") : t("viewer.none_in_view");
  }

  facts(view) {
    return [
      view.id, `${t("column.frames")} ${view.first_frame}–${view.last_frame}`,
      ...this.closeUp ? [] : [t("researcher.frame", { n: view.first_frame + this.at })],
      `${t("column.boxes")} ${number(view.boxes)}`,
      `${t("column.bridged")} ${share(view.bridged)}`,
      `${t("column.probability")} ${share(view.probability)}`,
      `${t("column.shows_polyp")} ${share(view.shows_polyp)}`,
    ];
  }

  gallery(index, view) {
    const here = this.alike.filter((one) => one.index === index);
    const indexed = this.alike.filter((one) => one.index === null);
    const others = this.alike.filter((one) => one.index !== index && one.index !== null);
    const list = (title, views) => views.length > 0 && [
      h("h3", {}, title),
      h("ul", {}, views.map((one) => h("li", { "data-key": `alike-${one.index}-${one.row}` },
        h("button", {
          type: "button", class: "view", "data-do": "open_alike", "data-index": one.index,
          "data-row": one.row, id: `alike-${one.index}-${one.row}`,
          "aria-label": [t("viewer.alt", { polyp: polypOf(one), time: clock(one.start_s) }),
            one.index !== index && t("procedure", { id: one.id })].filter(Boolean).join(", "),
        },
        h("img", {
          src: pictureOf(one.index, one.row, one.k, 160), width: 160, height: 160, alt: "",
          loading: "lazy", decoding: "async",
        }),
        h("span", {}, chip(one.polyp), h("b", {}, clock(one.start_s)), " ",
          h("span", { class: "soft" }, one.index === index ? "" : one.id)))))),
    ];
    return h("section", { class: "alike", "aria-label": t("similar") },
      this.alike.length === 0 && h("p", { class: "soft" }, t("similar.none")),
      list(t("similar.earlier"), here.filter((one) => one.start_s < view.start_s)),
      list(t("similar.later"), here.filter((one) => one.start_s >= view.start_s)),
      list(t("similar.others"), others),
      indexed.length > 0 && [h("h3", {}, t("similar.indexed")), h("ul", {}, indexed.map((one) =>
        h("li", { "data-key": `indexed-${one.tracklet}` }, h("span", { class: "view", title: one.tracklet },
          h("img", { src: one.picture ?? "data:,", width: 160, height: 160, alt: "" }),
          h("span", {}, h("b", {}, clock(one.start_s)), " ", h("span", { class: "soft" },
            [one.id, one.size_mm && `${number(one.size_mm, 1)} mm`, one.histology].filter(Boolean).join(" · ")))))))]);
  }
}
