# Builds a faiss IVF-Flat index with one thread over a file of float32 rows, and answers each search with one line of JSON.
import json
import sys
import time

import faiss
import numpy

stored, count, dimension, questions, lists, k = sys.argv[1:]
count, dimension, lists, k = int(count), int(dimension), int(lists), int(k)
rows = numpy.memmap(stored, dtype="<f4", mode="r", shape=(count, dimension))
questions = numpy.fromfile(questions, dtype="<f4").reshape(-1, dimension)


def say(value):
    print(json.dumps(value), flush=True)


begun = time.perf_counter()
quantizer = faiss.IndexFlatIP(dimension)
index = faiss.IndexIVFFlat(quantizer, dimension, lists, faiss.METRIC_INNER_PRODUCT)
sample = numpy.random.default_rng(1).choice(count, min(count, lists * 100), replace=False)
index.train(numpy.ascontiguousarray(rows[numpy.sort(sample)]))
trained = time.perf_counter() - begun
begun = time.perf_counter()
for start in range(0, count, 50_000):
    index.add(numpy.ascontiguousarray(rows[start : start + 50_000]))
added = time.perf_counter() - begun
faiss.omp_set_num_threads(1)
say({"version": faiss.__version__, "train_s": trained, "add_s": added})
for line in sys.stdin:
    asked = json.loads(line)
    index.nprobe = asked["probes"]
    wall, cpu, keys = [], [], []
    for question in questions:
        before, spent = time.perf_counter_ns(), time.thread_time_ns()
        _, found = index.search(question.reshape(1, -1), k)
        spent = time.thread_time_ns() - spent
        wall.append((time.perf_counter_ns() - before) / 1e3)
        cpu.append(spent / 1e3)
        keys.append([int(key) for key in found[0] if key >= 0])
    say({"wall": wall, "cpu": cpu, "keys": keys})
