// Measures pages in frames and reports what is wrong with them; loaded by browser.py.
const LEAST_CONTRAST = 4.5, LEAST_TEXT = 11;  // WCAG 2, level AA; CSS pixels
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const brush = canvas.getContext("2d", { willReadFrequently: true });
const colors = new Map();
function rgba(color) {
  if (!colors.has(color)) {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = color;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    colors.set(color, [r, g, b, a / 255]);
  }
  return colors.get(color);
}
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
function luminance(color) {
  const [r, g, b] = color.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
function surface(element, win, page, memo) {
  // Color below an element and the opacity of what is drawn on it; null where a picture lies below.
  if (!element) return [page, 1];
  if (!memo.has(element)) {
    const style = win.getComputedStyle(element), under = surface(element.parentElement, win, page, memo);
    const own = rgba(style.backgroundColor), opacity = Number(style.opacity);
    memo.set(element, !under || style.backgroundImage !== "none" ? null
      : [over([...own.slice(0, 3), own[3] * under[1] * opacity], under[0]), under[1] * opacity]);
  }
  return memo.get(element);
}
function colorsOf(element, win, page, memo) {
  const on = surface(element, win, page, memo);
  if (!on) return null;
  const text = rgba(win.getComputedStyle(element).color);
  return [over([...text.slice(0, 3), text[3] * on[1]], on[0]), on[0]];
}
function* texts(doc, win) {
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, noscript, title, svg")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.right <= 0 || box.left >= win.innerWidth) continue;
    yield [node, element];
  }
}
const shortened = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 50));
async function check(frame, scheme) {
  const win = frame.contentWindow, doc = frame.contentDocument, found = [];
  const width = win.innerWidth, page = scheme === "dark" ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const scrolled = doc.scrollingElement.scrollWidth;
  if (scrolled > doc.documentElement.clientWidth + 1) found.push(`scrolls sideways: it is ${scrolled} pixels wide`);
  for (const entry of win.performance.getEntriesByType("resource")) {
    if (new URL(entry.name, location).origin !== location.origin && !/^(data|blob):/.test(entry.name))
      found.push(`fetches ${entry.name}`);
  }
  if (width >= 1280) {
    for (const block of doc.querySelectorAll("pre, pre > code, .formula, table")) {
      if (!block.checkVisibility()) continue;
      const room = block.tagName === "TABLE" ? block.parentElement : block;
      if (block.scrollWidth > room.clientWidth + 1 && win.getComputedStyle(block).display !== "inline")
        found.push(`has a ${block.tagName.toLowerCase()} that needs ${block.scrollWidth} pixels and has ${room.clientWidth}: ${shortened(block.textContent)}`);
    }
  }
  for (const caption of doc.querySelectorAll("caption, figcaption")) {
    if (caption.checkVisibility() && caption.getBoundingClientRect().width > width)
      found.push(`has a caption that is wider than the window: ${shortened(caption.textContent)}`);
  }
  const seen = new Set(), memo = new Map();
  for (const [node, element] of texts(doc, win)) {
    const both = colorsOf(element, win, page, memo);
    if (both && contrast(...both) < LEAST_CONTRAST) {
      const key = `${element.tagName}.${element.className} ${both}`;
      if (!seen.has(key)) found.push(`has text with a contrast of ${contrast(...both).toFixed(2)} (${element.tagName.toLowerCase()}.${element.className}): ${shortened(node.data)}`);
      seen.add(key);
    }
    for (const match of node.data.matchAll(/\d[\d.,]*%?\s?±\s?\d[\d.,]*/g)) {
      const range = doc.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1)
        found.push(`breaks a line in ${shortened(match[0])}`);
    }
  }
  const pictures = [...doc.querySelectorAll("img")].filter((image) => image.checkVisibility() && image.clientWidth > 100);
  for (const image of pictures) {
    await image.decode().catch(() => found.push(`cannot show ${image.currentSrc || image.src}`));
    if (!image.naturalWidth) continue;
    const source = await (await fetch(image.currentSrc)).text().catch(() => "");
    const points = /smallest text: ([\d.]+) pt/.exec(source);
    const size = points && (points[1] * 4 / 3) * (image.clientWidth / image.naturalWidth);
    const name = image.currentSrc.startsWith("data:") ? image.alt : image.currentSrc.replace(location.origin, "");
    if (!points) found.push(`has a picture that does not state its smallest text: ${shortened(name)}`);
    else if (size < LEAST_TEXT) found.push(`shows text of ${size.toFixed(1)} pixels in ${shortened(name)}`);
  }
  return [found, pictures.map((image) => image.currentSrc)];
}
async function loaded(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `border: 0; width: ${width}px; height: 900px`;
  frame.src = page;
  await new Promise((resolve) => { frame.onload = resolve; document.body.replaceChildren(frame); });
  const doc = frame.contentDocument;
  const still = doc.createElement("style");
  still.textContent = "html { scrollbar-width: none } *, ::before, ::after { transition: none !important; animation: none !important }";
  doc.head.append(still);
  for (const image of doc.querySelectorAll("img[loading=lazy]")) image.loading = "eager";
  await doc.fonts.ready;
  return frame;
}
async function view(frame, scheme) {
  const body = frame.contentDocument.body;
  frame.style.colorScheme = scheme;
  if (body.dataset.mdColorScheme) body.dataset.mdColorScheme = scheme === "dark" ? "slate" : "default";
  await new Promise((resolve) => setTimeout(resolve, 60));
  return check(frame, scheme);
}
function nameless(doc) {
  // Controls that have no name, and regions and pictures that have none.
  return [...doc.querySelectorAll("a[href], button, select, textarea, input:not([type=hidden]), [role=region], [role=img], summary")]
    .filter((element) => element.checkVisibility())
    .filter((element) => {
      const by = element.getAttribute("aria-labelledby");
      const said = by ? doc.getElementById(by)?.textContent : element.getAttribute("aria-label");
      const own = ["SELECT", "INPUT", "TEXTAREA"].includes(element.tagName) || element.hasAttribute("role")
        ? [...(element.labels ?? [])].map((label) => label.textContent).join("") : element.textContent;
      return !(said || own || element.title).trim();
    })
    .map((element) => `has a ${element.tagName.toLowerCase()} without a name: ${shortened(element.outerHTML)}`);
}
async function all(pages, widths, needsNames = false) {
  const found = [];
  for (const page of pages) {
    const pictures = {};
    for (const width of widths) {
      const frame = await loaded(page, width);
      for (const scheme of ["light", "dark"]) {
        let [sentences, shown] = [[], []];
        try { [sentences, shown] = await view(frame, scheme); } catch (error) { sentences.push(`cannot be checked: ${error}`); }
        if (needsNames) sentences.push(...nameless(frame.contentDocument));
        pictures[scheme] = shown;
        found.push(...sentences.map((sentence) => `${page} (${width} pixels, ${scheme}) ${sentence}.`));
        await fetch("/progress", { method: "POST", body: "" });
      }
      for (const source of pictures.light.filter((one) => pictures.dark.includes(one)))
        found.push(`${page} (${width} pixels) shows the same picture in light and dark mode: ${source.slice(0, 100)}.`);
    }
  }
  await fetch("/found", { method: "POST", body: JSON.stringify(found) });
}
