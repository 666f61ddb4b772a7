// Runs files of SQL in ClickHouse as a library, for tests/clickhouse-t.sh:
// node clickhouse.js FOLDER [NAME=VALUE ... FILE.sql]...
// Parameters hold until they are set anew; "@seconds" prints what went by since the last one. Rows go to stdout as JSON.
'use strict';
const fs = require('fs');
const path = require('path');
const { Session } = require(require.resolve('chdb', { paths: [process.env.CHDB || '.'] }));

const session = new Session(process.argv[2]);
let last = process.hrtime.bigint();

// Statements end with a semicolon at the end of a line.
function statements(text) {
  return text.replace(/^--.*$/gm, '').split(/;[ \t]*$/m).map((one) => one.trim()).filter((one) => one !== '');
}

for (const argument of process.argv.slice(3)) {
  const parameter = /^([a-z_]+)=(.*)$/s.exec(argument);
  if (argument === '@seconds') {
    const now = process.hrtime.bigint();
    console.log(`# ${(Number(now - last) / 1e9).toFixed(3)} s`);
    last = now;
  } else if (parameter) {
    session.query(`SET param_${parameter[1]} = '${parameter[2].replace(/[\\']/g, '\\$&')}'`);
  } else {
    const text = argument.startsWith('SELECT') ? argument : fs.readFileSync(path.resolve(argument), 'utf8');
    for (const statement of statements(text)) {
      const asks = /^(SELECT|WITH)\b/.test(statement);
      const answer = session.query(asks ? `${statement} FORMAT JSONCompactEachRow` : statement);
      if (asks) console.log(answer.trim() + '\n--');
    }
  }
}
session.close();
