// Parses the output of arangosh into a sequence of values: objects of the shell become tokens, and
// lines that are not values become texts.
'use strict';

class Token {
  constructor(text) { this.text = text; }
}

class Reader {
  constructor(text) { this.text = text; this.at = 0; }

  space() { while (this.at < this.text.length && /\s/.test(this.text[this.at])) this.at += 1; }

  take(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (!match || match.index !== this.at) return null;
    this.at += match[0].length;
    return match[0];
  }

  expect(word) {
    if (!this.text.startsWith(word, this.at)) throw new Error(`expected ${word} at ${this.at}`);
    this.at += word.length;
  }

  value() {
    this.space();
    const token = this.take(/\([\w, ]*\) \{ \.\.\. \}/g) || this.take(/\[(?:Arango\w+|object|Function|GraphAQLQuery)[^\n]*?\](?=,? ?(?:\n|$))/g);
    if (token) return new Token(token);
    const letter = this.text[this.at];
    if (letter === '{') return this.object();
    if (letter === '[') return this.array();
    if (letter === '"') return JSON.parse(this.take(/"(?:[^"\\]|\\.)*"/g));
    const word = this.take(/-?\d[\d.eE+-]*|true|false|null|undefined/g);
    if (word === null) throw new Error(`no value at ${this.at}`);
    return word === 'undefined' ? undefined : JSON.parse(word);
  }

  array() {
    const out = [];
    this.expect('[');
    for (this.space(); this.text[this.at] !== ']'; this.space()) {
      if (out.length > 0) this.expect(',');
      out.push(this.value());
    }
    this.expect(']');
    return out;
  }

  object() {
    const out = {};
    this.expect('{');
    const kind = this.take(/\[\w+\]/g);
    for (this.space(); this.text[this.at] !== '}'; this.space()) {
      if (Object.keys(out).length > (kind && out[kind] !== undefined ? 1 : 0)) { this.expect(','); this.space(); }
      const name = JSON.parse(this.take(/"(?:[^"\\]|\\.)*"/g));
      this.space();
      this.expect(':');
      out[name] = this.value();
    }
    this.expect('}');
    return out;
  }
}

// Returns all values of a printed text, in order. A line that is not a value is returned as text.
function readShown(text) {
  const reader = new Reader(text);
  const out = [];
  for (;;) {
    reader.space();
    if (reader.at >= text.length) return out;
    const start = reader.at;
    try {
      const first = text[start];
      if (first !== '{' && first !== '[') throw new Error('a line');
      const value = reader.value();
      if (!/^ *(?:\n|$)/.test(text.slice(reader.at, reader.at + 2) || '\n')) throw new Error('more on the line');
      out.push(value);
    } catch {
      const end = text.indexOf('\n', start);
      reader.at = end < 0 ? text.length : end;
      out.push(new Token(text.slice(start, reader.at).trimEnd()));
    }
  }
}

module.exports = { readShown, Token };
