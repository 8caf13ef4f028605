// Copy buttons of a model's page, and the site's own address in its texts: all else works without this script.
"use strict";

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    select(code); // no clipboard without HTTPS or permission: leave it to the reader's keyboard
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

const top_ = new URL("..", document.location).href;
const plain = /^[\w.~:/%@+,=[\]-]+$/.test(top_); // else it would need quoting in a shell

for (const block of document.querySelectorAll(".code")) {
  const [code, button] = [block.querySelector("code"), block.querySelector("button")];
  if (plain) {
    code.textContent = code.textContent.replaceAll(code.dataset.placeholder, () => top_);
  }
  button.addEventListener("click", () => copy(code, button));
  button.hidden = false;
}
if (plain) document.getElementById("unknown")?.remove();
