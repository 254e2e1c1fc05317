// Open and close all procedures; open one that a link points into; print them all.
"use strict";
const procedures = document.querySelectorAll("details.procedure");
for (const button of document.querySelectorAll("button[data-open]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    for (const procedure of procedures) procedure.open = button.dataset.open === "yes";
  });
}
function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
addEventListener("beforeprint", () => {
  for (const procedure of procedures) procedure.open = true;
});
openTarget();
