// Runs files of SQL in ClickHouse as a library, for tests/clickhouse-t.sh:
// node clickhouse.js FOLDER [NAME=VALUE ... FILE.sql]...
// Parameters hold until they are set anew. Rows go to stdout as JSON. "@seconds" prints what went by since the last one,
// "@times" has each statement from there on followed by the time it took.
'use strict';
const fs = require('fs');
const path = require('path');
const { Session } = require(require.resolve('chdb', { paths: [process.env.CHDB || '.'] }));

const session = new Session(process.argv[2]);
let last = process.hrtime.bigint();
let times = false;

function say(since) {
  console.log(`# ${(Number(process.hrtime.bigint() - since) / 1e9).toFixed(3)} s`);
}

// Statements end with a semicolon at the end of a line.
function statements(text) {
  return text.replace(/^--.*$/gm, '').split(/;[ \t]*$/m).map((one) => one.trim()).filter((one) => one !== '');
}

for (const argument of process.argv.slice(3)) {
  const parameter = /^([a-z_]+)=(.*)$/s.exec(argument);
  if (argument === '@seconds') {
    say(last);
    last = process.hrtime.bigint();
  } else if (argument === '@times') {
    times = true;
  } else if (parameter) {
    session.query(`SET param_${parameter[1]} = '${parameter[2].replace(/[\\']/g, '\\$&')}'`);
  } else {
    const text = argument.startsWith('SELECT') ? argument : fs.readFileSync(path.resolve(argument), 'utf8');
    for (const statement of statements(text)) {
      const asks = /^(SELECT|WITH)\b/.test(statement);
      const begin = process.hrtime.bigint();
      const answer = session.query(asks ? `${statement} FORMAT JSONCompactEachRow` : statement);
      if (times) say(begin);
      if (asks) console.log(answer.trim() + '\n--');
    }
  }
}
session.close();
