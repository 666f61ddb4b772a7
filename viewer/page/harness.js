'use strict';
// What the tests of pages share: TAP, blocks, pictures that are not blank.

/* ok() and attempt() note what passes; finish() shows it, with figures below. */
function tester() {
  const lines = [];
  let [number_, failed] = [0, 0];
  const ok = (passed, what, why) => {
    failed += !passed;
    lines.push(`${passed ? 'ok' : 'not ok'} ${++number_} - ${what}`, ...(passed || why === undefined ? [] : ['# ' + why]));
  };
  const attempt = async (what, check) => {
    try {
      const why = await check();
      ok(why === undefined, what, why);
    } catch (error) {
      ok(false, what, error.stack);
    }
  };
  const finish = (timing) => {
    lines.push(`1..${number_}`, ...Object.entries(timing).map(([name, value]) => `# ${name} ${value}`));
    byId('selftest').textContent = lines.join('\n') + '\n';
    byId('selftest').hidden = false;
    document.documentElement.dataset.selftest = failed ? 'failed' : 'passed';
  };
  return { ok, attempt, finish };
}

/* Everything in the manifest that is a block. */
function blocksOf(value) {
  if (value === null || typeof value !== 'object') return [];
  if (typeof value.id === 'string' && value.code) return [value];
  return Object.values(value).flatMap(blocksOf);
}

function blank(id) {
  const canvas = byId(id);
  const { data: pixels } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return pixels.some((value) => value) ? undefined : id + ' is blank';
}
