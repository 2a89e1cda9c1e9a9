// The basics of what axe checks: a list of what is wrong on the page.
() => {
  const problems = [];
  const visible = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const pixel = (colour) => { brush.clearRect(0, 0, 1, 1); brush.fillStyle = colour; brush.fillRect(0, 0, 1, 1); const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => top.slice(0, 3).map((value, index) => value * top[3] + under[index] * (1 - top[3]));
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(pixel(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (rgb) => { const [r, g, b] = rgb.map((value) => { const v = value / 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [high, low] = [light(a), light(b)].sort((x, y) => y - x); return (high + 0.05) / (low + 0.05); };

  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !visible(node) || node.closest(":disabled, .hidden, script, style, option")) continue;
    const style = getComputedStyle(node);
    const inPicture = node instanceof SVGElement;
    const behind = inPicture ? ground(node.closest("svg").parentElement) : ground(node);
    const ratio = contrast(over(pixel(inPicture ? style.fill : style.color), behind), behind);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) problems.push(`contrast ${ratio.toFixed(2)} of “${walker.currentNode.textContent.trim().slice(0, 30)}” (${node.className.baseVal ?? node.className})`);
  }
  for (const node of document.querySelectorAll("input, select, textarea")) {
    if (!visible(node)) continue;
    const edge = contrast(pixel(getComputedStyle(node).borderTopColor), ground(node.parentElement));
    if (!["radio", "checkbox"].includes(node.type) && edge < 3) problems.push(`edge ${edge.toFixed(2)} of #${node.id}`);
    if (!node.labels?.length && !node.ariaLabel) problems.push(`no label: #${node.id}`);
  }
  for (const node of document.querySelectorAll("button, a[href], summary")) if (visible(node) && !(node.textContent.trim() || node.ariaLabel)) problems.push(`no name: ${node.outerHTML.slice(0, 80)}`);
  for (const node of document.querySelectorAll("img:not([alt])")) problems.push(`no alt: ${node.src}`);
  for (const node of document.querySelectorAll("svg")) if (node.getAttribute("aria-hidden") !== "true" && !(node.getAttribute("role") === "img" && node.getAttribute("aria-label"))) problems.push(`a picture without a text: ${node.getAttribute("class")}`);
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push(`id twice: ${id}`);
  for (const node of document.querySelectorAll("[aria-describedby]")) for (const id of node.getAttribute("aria-describedby").split(" ")) if (!document.getElementById(id)) problems.push(`describes nothing: ${id}`);
  if (document.querySelector("[tabindex]:not([tabindex='0']):not([tabindex='-1'])")) problems.push("a tabindex of its own");
  if (document.querySelectorAll("main").length !== 1 || !document.documentElement.lang || !document.title) problems.push("no main, lang or title");
  for (const node of document.querySelectorAll("th")) if (!node.scope) problems.push("a table head without scope");
  return problems;
}
