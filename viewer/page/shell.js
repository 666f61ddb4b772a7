'use strict';
// What all pages begin with: the theme, the help, the word where something is wrong, the first picture and the rest,
// and how they are printed.

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

function watchTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => setTheme(dark.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
}

/* Printed: light, and `draw` draws the pictures at twice the resolution. */
function watchPrint(draw) {
  const { dataset } = document.documentElement;
  const print = (on) => {
    if (on) [dataset.before, dataset.theme] = [dataset.theme, 'light'];
    else dataset.theme = dataset.before;
    printing = on;
    readTheme();
    draw();
  };
  addEventListener('beforeprint', () => print(true));
  addEventListener('afterprint', () => print(false));
}

/* Begin: `open` takes the manifest and opens what the first picture needs, `rest` opens what is drawn after it. */
async function beginPage(open, rest) {
  watchTheme();
  byId('help-open').addEventListener('click', () => byId('help').showModal());
  if (typeof DecompressionStream === 'undefined')
    return say('This browser cannot inflate the page’s data (DecompressionStream). Chrome 103, Firefox 113 and Safari 16.4 can.');
  try {
    await open(JSON.parse(byId('tidemark').textContent));
    drawAll();
    performance.mark('first picture');
    await new Promise((done) => setTimeout(done));
    await rest();
    performance.mark('all');
    await new Promise(requestAnimationFrame);   /* which has drawn the rest */
    settle();
    document.documentElement.dataset.ready = 'yes';
    if (location.hash.startsWith('#selftest')) await selftest();
  } catch (error) {
    say('The data of this page is damaged: ' + error.message);
    throw error;
  }
}
