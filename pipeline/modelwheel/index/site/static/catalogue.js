// Search and copy buttons of the catalogue: hidden without this script, everything else works.
"use strict";

const articles = [...document.querySelectorAll("article")];
const texts = articles.map((article) => article.textContent.toLowerCase());
const query = document.getElementById("query");
const found = document.getElementById("found");

function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  articles.forEach((article, i) => {
    article.hidden = !words.every((word) => texts[i].includes(word));
    shown += !article.hidden;
  });
  found.textContent = words.length ? `${shown} of ${articles.length}` : "";
  document.getElementById("nothing").hidden = shown > 0;
}

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

const here = new URL(".", document.location).href;
const plain = /^[\w.~:/%@+,=[\]-]+$/.test(here); // else it would need quoting in a shell

for (const install of document.querySelectorAll(".install")) {
  const [code, button] = install.children;
  if (plain) {
    code.textContent = code.textContent.replaceAll(code.dataset.placeholder, () => here);
  }
  button.addEventListener("click", () => copy(code, button));
  button.hidden = false;
}

const form = document.getElementById("search");
form.addEventListener("submit", (event) => event.preventDefault());
query.addEventListener("input", search);
form.hidden = false;
search(); // the browser may have kept a query over a reload
