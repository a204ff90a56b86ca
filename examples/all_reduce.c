/* Sums a vector over four processes.
 *
 *   cc all_reduce.c -o all_reduce $(pkg-config --cflags --libs rondo)
 *   ./all_reduce
 */
#include <rondo/rondo.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define COUNT 1000

static int run(rondoUniqueId id, int rank) {
  rondoComm_t comm = NULL;
  float values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = (float)(rank + 1) * (float)i;

  rondoResult_t result = rondoCommInitRank(&comm, RANKS, id, rank);
  if (result == rondoSuccess)
    result = rondoAllReduce(values, values, COUNT, rondoFloat32, rondoSum, comm, NULL);
  if (result != rondoSuccess) {
    fprintf(stderr, "rank %d: %s: %s\n", rank, rondoGetErrorString(result), rondoGetLastError(comm));
    return 1;
  }
  printf("rank %d of %d: %g, expected %g\n", rank, RANKS, values[COUNT - 1], 10.0 * (COUNT - 1));
  rondoCommDestroy(comm);
  return values[COUNT - 1] == 10.0f * (COUNT - 1) ? 0 : 1;
}

int main(void) {
  rondoUniqueId id;
  if (rondoGetUniqueId(&id) != rondoSuccess) {
    fprintf(stderr, "%s\n", rondoGetLastError(NULL));
    return 1;
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    const pid_t child = fork();
    if (child < 0) perror("fork");
    if (child == 0) return run(id, rank);
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  return failed != 0;
}
