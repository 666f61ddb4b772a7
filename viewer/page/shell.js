'use strict';
// What all pages begin with: the theme, the help, and the word where something is wrong.

function say(text) {
  byId('word').textContent = text;
  byId('word').hidden = false;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
  readTheme();
  changed('theme');
}

function options(id, values, words) {
  byId(id).replaceChildren(...values.map((value) => make('option', { value }, words[value] ?? value)));
}

/* Follow the browser's theme. False: the page cannot be read here, which it says. */
function beginPage() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  byId('help-open').addEventListener('click', () => byId('help').showModal());
  byId('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  if (typeof DecompressionStream !== 'undefined') return true;
  say('This browser cannot inflate the page’s data (DecompressionStream). Chrome 103, Firefox 113 and Safari 16.4 can.');
  return false;
}
