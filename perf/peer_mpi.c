/* Times an MPI's collectives as the perf programs time Rondo's. f32, sum, out of place.
 *   peer_mpi COLLECTIVE dirty|clean BYTES:ITERATIONS...
 * prints for each size: bytes, median microseconds over the iterations of the slowest rank's time, and "ok"
 * or "wrong". dirty: the owner of an input writes one word in each of its cache lines before each timed call,
 * and a barrier lets all ranks start together; clean: back to back, on untouched inputs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { warmup = 5, words_in_a_line = 16, most_iterations = 10000 };

enum kind { all_reduce, all_gather, reduce_scatter };

struct bench {
  enum kind kind;
  int rank, ranks, dirty;
  size_t bytes;
  int count, part; /* elements of the whole, and of one rank's part */
  float *input, *output;
};

static void call(const struct bench* b) {
  switch (b->kind) {
    case all_reduce:
      MPI_Allreduce(b->input, b->output, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case all_gather:
      MPI_Allgather(b->input, b->part, MPI_FLOAT, b->output, b->part, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case reduce_scatter:
      MPI_Reduce_scatter_block(b->input, b->output, b->part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
  }
}

static float input_value(size_t i, int rank) { return (float)((i * 7 + (size_t)rank * 3) % 11); }

static float sum_value(size_t i, int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += input_value(i, rank);
  return sum;
}

static float expected_value(const struct bench* b, size_t i) {
  if (b->kind == all_reduce) return sum_value(i, b->ranks);
  if (b->kind == all_gather) return input_value(i % (size_t)b->part, (int)(i / (size_t)b->part));
  return sum_value(i + (size_t)b->rank * (size_t)b->part, b->ranks);
}

static int all_is_right(const struct bench* b) {
  const size_t results = (size_t)(b->kind == reduce_scatter ? b->part : b->count);
  int wrong = 0, any_wrong = 0;
  for (size_t i = 0; i < results && !wrong; ++i) wrong = b->output[i] != expected_value(b, i);
  MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return !any_wrong;
}

static void rewrite(const struct bench* b) {
  volatile float* words = b->input;
  const size_t count = (size_t)(b->kind == all_gather ? b->part : b->count);
  for (size_t i = 0; i < count; i += words_in_a_line) words[i] = words[i];
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const struct bench* b, int iterations) {
  static double mine[most_iterations], slowest[most_iterations];
  for (int i = 0; i < warmup; ++i) call(b);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < iterations; ++i) {
    if (b->dirty) {
      rewrite(b);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    const double start = MPI_Wtime();
    call(b);
    mine[i] = MPI_Wtime() - start;
  }
  MPI_Allreduce(mine, slowest, iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  qsort(slowest, (size_t)iterations, sizeof *slowest, compare);
  const int right = all_is_right(b);
  if (b->rank != 0) return;
  printf("%zu %.3f %s\n", b->bytes, slowest[iterations / 2] * 1e6, right ? "ok" : "wrong");
  fflush(stdout);
}

static int run_size(struct bench* b, const char* text) {
  int iterations = 0;
  if (sscanf(text, "%zu:%d", &b->bytes, &iterations) != 2 || iterations < 1 || iterations > most_iterations)
    return 0;
  b->part = (int)(b->bytes / sizeof(float) / (size_t)b->ranks);
  b->count = b->kind == all_reduce ? (int)(b->bytes / sizeof(float)) : b->part * b->ranks;
  void *input = NULL, *output = NULL;
  const size_t room = ((size_t)b->count + 1) * sizeof(float);
  if (posix_memalign(&input, 4096, room) != 0 || posix_memalign(&output, 4096, room) != 0) return 0;
  b->input = input;
  b->output = output;
  for (size_t i = 0; i < (size_t)b->count; ++i) {
    b->input[i] = input_value(i, b->rank);
    b->output[i] = -1;
  }
  measure(b, iterations);
  free(input);
  free(output);
  return 1;
}

static int parse_kind(const char* text, enum kind* kind) {
  if (strcmp(text, "all_reduce") == 0)
    *kind = all_reduce;
  else if (strcmp(text, "all_gather") == 0)
    *kind = all_gather;
  else if (strcmp(text, "reduce_scatter") == 0)
    *kind = reduce_scatter;
  else
    return 0;
  return 1;
}

int main(int argc, char** argv) {
  struct bench b = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
  int good = argc > 3 && parse_kind(argv[1], &b.kind);
  b.dirty = good && strcmp(argv[2], "dirty") == 0;
  for (int i = 3; i < argc && good; ++i) good = run_size(&b, argv[i]);
  if (!good) fprintf(stderr, "usage: peer_mpi COLLECTIVE dirty|clean BYTES:ITERATIONS...\n");
  MPI_Finalize();
  return good ? 0 : 2;
}
