// What a screen reader could not read on a page, and text with too little contrast.
() => {
  const found = [];
  const seen = (name) => [...document.querySelectorAll(name)]
    .filter((one) => one.checkVisibility() && !one.closest("[aria-hidden=true]"));
  const levels = seen("h1, h2, h3, h4, h5").map((one) => Number(one.tagName[1]));
  levels.forEach((level, k) => {
    if (level > (levels[k - 1] ?? 0) + 1) found.push(`heading ${level} after ${levels[k - 1]}`);
  });
  for (const one of seen("table")) {
    if (!one.caption && !one.ariaLabel) found.push("a table without a name");
  }
  for (const one of seen("ul[role], ol[role]")) found.push(`a list as ${one.role}`);
  for (const one of seen("dialog[open]")) if (!one.ariaLabel) found.push(`dialog ${one.id}`);
  for (const one of seen("img:not([alt])")) found.push(one.outerHTML);
  for (const one of seen("button, a, input, select, summary")) {
    if (!(one.ariaLabel || one.innerText || one.labels?.length)) found.push(one.outerHTML);
  }

  // WCAG 2.2, 1.4.3: a contrast of 4.5, or of 3 for large text.
  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((x, k) => a * x + (1 - a) * under[k]);
  const light = (rgb) => rgb.map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, k) => sum + x * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (one) => one
    ? over(colour(getComputedStyle(one).backgroundColor), behind(one.parentElement))
    : [255, 255, 255];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    const said = texts.currentNode.textContent.trim();
    if (!said || !one.checkVisibility() || one.closest("[disabled], .unseen, svg")) continue;
    const [style, under] = [getComputedStyle(one), behind(one)];
    const pair = [light(over(colour(style.color), under)), light(under)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.7 && style.fontWeight >= 700);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.push(`contrast of ${said}: ${contrast.toFixed(2)}`);
  }
  return found;
}
