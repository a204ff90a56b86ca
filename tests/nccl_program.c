/* NCCL's functions on host memory, as a program in C knows them from nccl.h: each result is checked, and the
 * memory around each buffer.
 *
 *   nccl_program threads           4 ranks of ncclCommInitAll, a thread each; and all of them in one thread
 *   nccl_program processes         4 forked ranks, which get the id through a file
 *   nccl_program launched ID_FILE  this rank of what `rondo run -n 4` started */
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <rondo/rondo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ranks = 4, count = 1003, guard = 64 };

static _Noreturn void fail_at(int line, const char* what, const char* why) {
  fprintf(stderr, "nccl_program.c:%d: %s: %s\n", line, what, why);
  exit(1);
}

#define WELL(call)                                                                      \
  do {                                                                                  \
    const ncclResult_t result_ = (call);                                                \
    if (result_ != ncclSuccess) {                                                       \
      fprintf(stderr, "%s: %s\n", ncclGetErrorString(result_), ncclGetLastError(NULL)); \
      fail_at(__LINE__, #call, "expected ncclSuccess");                                 \
    }                                                                                   \
  } while (0)
#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) fail_at(__LINE__, #condition, "does not hold"); \
  } while (0)
/* The call fails so, and ncclGetLastError says this. */
#define REFUSED(call, expected, part)                                                                  \
  do {                                                                                                 \
    EXPECT((call) == (expected));                                                                      \
    if (strstr(ncclGetLastError(NULL), part) == NULL) fail_at(__LINE__, part, ncclGetLastError(NULL)); \
  } while (0)

static size_t size_of(ncclDataType_t type) {
  const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

/* Small numbers that f16 holds exactly, and zero. */
static uint16_t half_of(double value) {
  int exponent = 0;
  if (value == 0) return 0;
  const double mantissa = frexp(value, &exponent); /* 0.5 to 1 */
  return (uint16_t)(((exponent + 14) << 10) | (int)((mantissa * 2 - 1) * 1024));
}

static uint16_t bfloat_of(double value) {
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* Writes `value` as element `index`. Integers truncate. */
static void put(void* buffer, size_t index, ncclDataType_t type, double value) {
  switch (type) {
    case ncclInt8:
      ((int8_t*)buffer)[index] = (int8_t)value;
      break;
    case ncclUint8:
      ((uint8_t*)buffer)[index] = (uint8_t)value;
      break;
    case ncclInt32:
      ((int32_t*)buffer)[index] = (int32_t)value;
      break;
    case ncclUint32:
      ((uint32_t*)buffer)[index] = (uint32_t)value;
      break;
    case ncclInt64:
      ((int64_t*)buffer)[index] = (int64_t)value;
      break;
    case ncclUint64:
      ((uint64_t*)buffer)[index] = (uint64_t)value;
      break;
    case ncclFloat16:
      ((uint16_t*)buffer)[index] = half_of(value);
      break;
    case ncclFloat32:
      ((float*)buffer)[index] = (float)value;
      break;
    case ncclFloat64:
      ((double*)buffer)[index] = value;
      break;
    case ncclBfloat16:
      ((uint16_t*)buffer)[index] = bfloat_of(value);
      break;
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      ((uint8_t*)buffer)[index] = (uint8_t)value;
      break; /* any bytes */
    case ncclNumTypes:
      abort();
  }
}

/* 1, 2 or 3. */
static double value_of(int rank, size_t index) { return (double)(((size_t)rank + index) % 3 + 1); }

/* A buffer with guards before and behind it. */
typedef struct {
  unsigned char* all;
  void* data;
  size_t bytes;
} Buffer;

static Buffer buffer_of(size_t elements, ncclDataType_t type) {
  const size_t bytes = elements * size_of(type);
  unsigned char* all = malloc(bytes + 2 * guard);
  EXPECT(all != NULL);
  memset(all, 0xA5, bytes + 2 * guard);
  const Buffer buffer = {all, all + guard, bytes};
  return buffer;
}

static void fill(Buffer buffer, ncclDataType_t type, int rank) {
  for (size_t i = 0; i < buffer.bytes / size_of(type); ++i) put(buffer.data, i, type, value_of(rank, i));
}

static void release(Buffer buffer) {
  for (size_t i = 0; i < guard; ++i) {
    EXPECT(buffer.all[i] == 0xA5);
    EXPECT(buffer.all[guard + buffer.bytes + i] == 0xA5);
  }
  free(buffer.all);
}

/* From element `first` on, `elements` of them hold what rank `rank` has from its element `from` on. */
static void expect_values(int line, const void* data, size_t first, size_t elements, ncclDataType_t type,
                          int rank, size_t from) {
  for (size_t i = 0; i < elements; ++i) {
    double expected = 0;
    put(&expected, 0, type, value_of(rank, from + i));
    if (memcmp((const char*)data + (first + i) * size_of(type), &expected, size_of(type)) != 0)
      fail_at(line, "an element", "is not what was sent");
  }
}

/* ---- reductions ---- */

/* The operators of NCCL, and one with a factor of 2. */
enum { factor_op = ncclNumOps, all_ops };

static double reduced(int op, size_t index) {
  double sum = 0, product = 1, most = 0, least = 4;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = value_of(rank, index);
    sum += value, product *= value;
    most = fmax(most, value), least = fmin(least, value);
  }
  const double results[] = {sum, product, most, least, sum / ranks, 2 * sum};
  return results[op];
}

static void expect_reduced(int line, Buffer buffer, ncclDataType_t type, int op, size_t from) {
  for (size_t i = 0; i < buffer.bytes / size_of(type); ++i) {
    double expected = 0;
    put(&expected, 0, type, reduced(op, from + i));
    if (memcmp((char*)buffer.data + i * size_of(type), &expected, size_of(type)) != 0) {
      fprintf(stderr, "type %d, operator %d, element %zu\n", (int)type, op, i);
      fail_at(line, "an element", "is not the reduction");
    }
  }
}

static void reduce_all_ways(ncclComm_t comm, int rank, ncclDataType_t type, ncclRedOp_t op, int kind) {
  const Buffer in = buffer_of(count, type), out = buffer_of(count, type), part = buffer_of(count, type);
  const Buffer whole = buffer_of(ranks * count, type);
  fill(in, type, rank);
  fill(whole, type, rank);

  WELL(ncclAllReduce(in.data, out.data, count, type, op, comm, NULL));
  expect_reduced(__LINE__, out, type, kind, 0);
  WELL(ncclReduceScatter(whole.data, part.data, count, type, op, comm, NULL));
  expect_reduced(__LINE__, part, type, kind, (size_t)rank * count);
  memset(out.data, 0, out.bytes);
  WELL(ncclReduce(in.data, rank == 1 ? out.data : NULL, count, type, op, 1, comm, NULL));
  if (rank == 1) expect_reduced(__LINE__, out, type, kind, 0);
  WELL(pncclAllReduce(in.data, in.data, count, type, op, comm, NULL)); /* in place, by the other name */
  expect_reduced(__LINE__, in, type, kind, 0);

  release(in), release(out), release(part), release(whole);
}

static void check_reductions(ncclComm_t comm, int rank) {
  for (ncclDataType_t type = ncclInt8; type <= ncclBfloat16; ++type) {
    for (int kind = 0; kind < factor_op; ++kind) reduce_all_ways(comm, rank, type, (ncclRedOp_t)kind, kind);
    uint64_t factor = 0;
    ncclRedOp_t twice;
    put(&factor, 0, type, 2);
    WELL(ncclRedOpCreatePreMulSum(&twice, &factor, type, ncclScalarHostImmediate, comm));
    EXPECT(twice >= ncclNumOps);
    reduce_all_ways(comm, rank, type, twice, factor_op);
    WELL(ncclRedOpDestroy(twice, comm));
  }
}

/* ---- what only moves ---- */

static void move_all_ways(ncclComm_t comm, int rank, ncclDataType_t type) {
  const Buffer in = buffer_of(count, type), out = buffer_of(count, type);
  const Buffer all = buffer_of(ranks * count, type), blocks = buffer_of(ranks * count, type);
  fill(in, type, rank);
  fill(blocks, type, rank);

  WELL(ncclAllGather(in.data, all.data, count, type, comm, NULL));
  for (int peer = 0; peer < ranks; ++peer)
    expect_values(__LINE__, all.data, (size_t)peer * count, count, type, peer, 0);
  WELL(ncclBroadcast(in.data, out.data, count, type, 2, comm, NULL));
  expect_values(__LINE__, out.data, 0, count, type, 2, 0);
  fill(out, type, rank);
  WELL(ncclBcast(out.data, count, type, 3, comm, NULL));
  expect_values(__LINE__, out.data, 0, count, type, 3, 0);
  WELL(ncclAlltoAll(blocks.data, all.data, count, type, comm, NULL));
  for (int peer = 0; peer < ranks; ++peer)
    expect_values(__LINE__, all.data, (size_t)peer * count, count, type, peer, (size_t)rank * count);
  memset(all.data, 0, all.bytes);
  WELL(ncclGather(in.data, rank == 0 ? all.data : NULL, count, type, 0, comm, NULL));
  for (int peer = 0; rank == 0 && peer < ranks; ++peer)
    expect_values(__LINE__, all.data, (size_t)peer * count, count, type, peer, 0);
  WELL(ncclScatter(rank == 0 ? blocks.data : NULL, out.data, count, type, 0, comm, NULL));
  expect_values(__LINE__, out.data, 0, count, type, 0, (size_t)rank * count);

  /* A ring of messages, which only a group lets pass. */
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  WELL(ncclGroupStart());
  WELL(ncclSend(in.data, count, type, right, comm, NULL));
  WELL(ncclRecv(out.data, count, type, left, comm, NULL));
  WELL(ncclGroupEnd());
  expect_values(__LINE__, out.data, 0, count, type, left, 0);

  release(in), release(out), release(all), release(blocks);
}

static void check_moves(ncclComm_t comm, int rank) {
  for (ncclDataType_t type = ncclInt8; type < ncclNumTypes; ++type) move_all_ways(comm, rank, type);
}

/* ---- the rest ---- */

static void check_groups(ncclComm_t comm, int rank) {
  float one = (float)(rank + 1);
  double two = rank + 1;
  WELL(ncclGroupStart());
  WELL(ncclGroupStart());
  WELL(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, comm, NULL));
  WELL(ncclGroupEnd());
  WELL(ncclAllReduce(&two, &two, 1, ncclFloat64, ncclMax, comm, NULL));
  EXPECT(one == (float)(rank + 1)); /* nothing runs before the outer end */
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "ncclGroupSimulateEnd: not offered by Rondo: ");
  WELL(ncclGroupEnd());
  EXPECT(one == 10 && two == 4);
  REFUSED(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupEnd: the end of a group without its start");
}

/* A stream of Rondo's where NCCL takes one of CUDA's. */
static void check_streams(ncclComm_t comm, int rank) {
  rondoStream_t stream;
  double value = rank + 1;
  EXPECT(rondoStreamCreate(&stream) == rondoSuccess);
  for (int i = 0; i < 3; ++i)
    WELL(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, comm, (cudaStream_t)stream));
  EXPECT(rondoStreamSynchronize(stream) == rondoSuccess);
  EXPECT(value == 160);
  EXPECT(rondoStreamDestroy(stream) == rondoSuccess);
  /* CUDA's names for its own streams are none of Rondo's. */
  REFUSED(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, comm, cudaStreamPerThread),
          ncclInvalidArgument, "ncclAllReduce: stream 0x2: expected one made by rondoStreamCreate");
}

static void check_memory(ncclComm_t comm, int rank) {
  float *mapped = NULL, heap[16];
  WELL(ncclMemAlloc((void**)&mapped, 1 << 20));
  void* handle = NULL;
  ncclWindow_t window = NULL, other = NULL;
  WELL(ncclCommRegister(comm, heap, sizeof heap, &handle));
  WELL(ncclCommWindowRegister(comm, mapped, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
  WELL(ncclCommWindowRegister(comm, heap, sizeof heap, &other, NCCL_WIN_DEFAULT));
  REFUSED(ncclCommWindowRegister(comm, heap, sizeof heap, &other, 0x40), ncclInvalidArgument,
          "ncclCommWindowRegister: winFlags 0x40");
  mapped[7] = (float)rank;
  WELL(ncclAllReduce(mapped, mapped, 16, ncclFloat32, ncclSum, comm, NULL));
  EXPECT(mapped[7] == 6);
  WELL(ncclCommWindowDeregister(comm, other));
  WELL(ncclCommWindowDeregister(comm, window));
  WELL(ncclCommDeregister(comm, handle));
  REFUSED(ncclCommDeregister(comm, handle), ncclInvalidArgument, "ncclCommDeregister: handle");
  WELL(ncclMemFree(mapped));
  WELL(ncclMemFree(NULL));
}

static void expect_sum(ncclComm_t comm, int size, int at) {
  int rank = -1, number = 0, sum;
  WELL(ncclCommUserRank(comm, &rank));
  WELL(ncclCommCount(comm, &number));
  EXPECT(rank == at && number == size);
  sum = rank + 1;
  WELL(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, NULL));
  EXPECT(sum == size * (size + 1) / 2);
}

static void check_splits(ncclComm_t comm, int rank) {
  ncclComm_t half = NULL, none = comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "halves";
  config.splitShare = 1;
  WELL(ncclCommSplit(comm, rank % 2, -rank, &half, &config));
  expect_sum(half, 2, rank < 2); /* the keys turn the order round */
  REFUSED(ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, half, NULL), ncclInvalidArgument, "is null");
  WELL(ncclCommSplit(comm, rank == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
  EXPECT((none != NULL) == (rank == 0));
  WELL(ncclCommDestroy(none)); /* null is fine */

  /* Two of one parent in a group. */
  ncclComm_t two[2] = {NULL, NULL};
  WELL(ncclGroupStart());
  WELL(ncclCommSplit(comm, rank / 2, rank, &two[0], NULL));
  WELL(ncclCommSplit(comm, 0, -rank, &two[1], NULL));
  EXPECT(two[0] == NULL);
  WELL(ncclGroupEnd());
  expect_sum(two[0], 2, rank % 2);
  expect_sum(two[1], ranks, ranks - 1 - rank);

  WELL(ncclCommFinalize(half));
  WELL(ncclCommDestroy(half));
  WELL(ncclCommDestroy(two[0]));
  WELL(ncclCommDestroy(two[1]));
}

static void check_shrinks(ncclComm_t comm, int rank) {
  int out[] = {1}, self[] = {rank}, twice[] = {(rank + 1) % ranks, (rank + 1) % ranks};
  ncclComm_t left = NULL;
  REFUSED(ncclCommShrink(comm, self, 1, &left, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument, "this rank");
  REFUSED(ncclCommShrink(comm, twice, 2, &left, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument, "twice");
  REFUSED(ncclCommShrink(comm, out, 1, &left, NULL, 4), ncclInvalidArgument, "shrinkFlags 0x4");
  for (int i = 0; i < 2 && rank != 1; ++i) {
    WELL(ncclCommShrink(comm, out, 1, &left, NULL, NCCL_SHRINK_DEFAULT));
    expect_sum(left, ranks - 1, rank == 0 ? 0 : rank - 1);
    WELL(ncclCommDestroy(left));
  }
  expect_sum(comm, ranks, rank); /* the parent is whole */
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 30, 0)
/* Three ranks become four; rank 1 is the one that has the id. */
static void check_growth(ncclComm_t comm, int rank) {
  ncclComm_t three = NULL, four = NULL;
  ncclUniqueId id;
  uint64_t bytes = 1;
  WELL(ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : 0, 0, &three, NULL));
  if (rank == 1) WELL(ncclCommGetUniqueId(three, &id));
  WELL(ncclBroadcast(&id, &id, sizeof id, ncclUint8, 1, comm, NULL));
  if (rank < 3) {
    REFUSED(ncclCommGrow(three, 3, NULL, -1, &four, NULL), ncclInvalidArgument,
            "nRanks 3: expected more than 3");
    REFUSED(ncclCommGrow(three, ranks, NULL, 1, &four, NULL), ncclInvalidArgument, "rank 1: expected -1");
    REFUSED(ncclCommGrow(three, ranks, NULL, -1, &four, NULL), ncclInvalidUsage, "0 ranks of comm");
  }
  WELL(ncclCommGrow(three, ranks, rank % 2 == 1 ? &id : NULL, rank == 3 ? 3 : -1, &four, NULL));
  expect_sum(four, ranks, rank);
  WELL(ncclCommSuspend(four, NCCL_SUSPEND_MEM));
  WELL(ncclCommResume(four));
  WELL(ncclCommMemStats(four, ncclStatGpuMemTotal, &bytes));
  EXPECT(bytes == 0);
  REFUSED(ncclSignal(0, 0, 0, 0, four, NULL), ncclInvalidUsage, "ncclSignal: not offered by Rondo: ");
  REFUSED(ncclParamBind(NULL, "x"), ncclInvalidUsage, "ncclParamBind: not offered by Rondo: ");
  WELL(ncclCommDestroy(four));
  WELL(ncclCommDestroy(three));
}
#else
static void check_growth(ncclComm_t comm, int rank) { (void)comm, (void)rank; }
#endif

static void check_errors(ncclComm_t comm, int rank) {
  float values[2] = {0, 0};
  int number = -1;
  ncclResult_t async = ncclInternalError;
  ncclRedOp_t op;
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  REFUSED(ncclAllReduce(values, NULL, 1, ncclFloat32, ncclSum, comm, NULL), ncclInvalidArgument,
          "ncclAllReduce: ");
  REFUSED(ncclBroadcast(values, values, 1, ncclFloat32, ranks, comm, NULL), ncclInvalidArgument, "root 4");
  REFUSED(ncclAllReduce(values, values, 1, ncclNumTypes, ncclSum, comm, NULL), ncclInvalidArgument,
          "type 12");
  REFUSED(ncclAllReduce(values, values, 1, ncclFloat8e4m3, ncclSum, comm, NULL), ncclInvalidUsage,
          "ncclAllReduce: not offered by Rondo: arithmetic on ncclFloat8e4m3");
  REFUSED(ncclRedOpCreatePreMulSum(&op, values, ncclFloat8e5m2, ncclScalarHostImmediate, comm),
          ncclInvalidUsage, "ncclFloat8e5m2");
  REFUSED(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument, "ncclRedOpDestroy: op 0");
  REFUSED(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidUsage,
          "ncclCommRevoke: not offered by Rondo: ");
  REFUSED(ncclCommCount(NULL, &number), ncclInvalidArgument, "ncclCommCount: comm");
  REFUSED(ncclCommCount((ncclComm_t)(uintptr_t)999999, &number), ncclInvalidArgument,
          "ncclCommCount: comm 0x");
  REFUSED(ncclCommCuDevice((ncclComm_t)(uintptr_t)999999, &number), ncclInvalidArgument, "ncclCommCuDevice");
  REFUSED(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument, "ncclCommInitRank: comm is null");
  WELL(ncclCommGetAsyncError(comm, &async));
  EXPECT(async == ncclSuccess);
  WELL(ncclCommCuDevice(comm, &number));
  EXPECT(number == cudaCpuDeviceId);

  /* Ranks that do not agree are told so, all of them, and go on. */
  REFUSED(ncclAllReduce(values, values, rank == 2 ? 2 : 1, ncclFloat32, ncclSum, comm, NULL),
          ncclInvalidUsage, "count");
  expect_sum(comm, ranks, rank);
}

static void check_texts(void) {
  int version = 0;
  WELL(ncclGetVersion(&version));
  EXPECT(version == NCCL_VERSION_CODE);
  EXPECT(pncclGetVersion(NULL) == ncclInvalidArgument);
  EXPECT(strcmp(ncclGetLastError(NULL), "ncclGetVersion: version is null") == 0);
  for (int code = 0; code < ncclNumResults; ++code)
    EXPECT(strcmp(ncclGetErrorString((ncclResult_t)code), "unknown result code") != 0);
  EXPECT(strcmp(ncclGetErrorString(ncclNumResults), "unknown result code") == 0);
  EXPECT(strcmp(pncclGetErrorString(ncclSuccess), "no error") == 0);
}

static ncclResult_t start_with(ncclConfig_t* config) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  WELL(ncclGetUniqueId(&id));
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, config);
  EXPECT((comm != NULL) == (result == ncclSuccess));
  WELL(ncclCommDestroy(comm));
  return result;
}

static void check_configs(void) {
  const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
  ncclConfig_t config = fresh;
  WELL(start_with(&config));
  WELL(start_with(NULL));
  config.blocking = 0, config.minCTAs = 1, config.maxCTAs = 8, config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  WELL(start_with(&config)); /* ready when it returns */
  config.size = 20;          /* of a program that knew no more than `blocking` */
  config.minCTAs = -7;
  WELL(start_with(&config));
  config = fresh, config.size = 16;
  REFUSED(start_with(&config), ncclInvalidArgument,
          "ncclCommInitRankConfig: config size 16: expected at least 20");
  config = fresh, config.magic = 1;
  REFUSED(start_with(&config), ncclInvalidArgument, "config magic 0x1");
  config = fresh, config.blocking = 2;
  REFUSED(start_with(&config), ncclInvalidArgument, "config blocking 2: expected 0 to 1");
  config = fresh, config.minCTAs = 9, config.maxCTAs = 8;
  REFUSED(start_with(&config), ncclInvalidArgument, "minCTAs 9 is above maxCTAs 8");
  config = fresh, config.nChannelsPerNetPeer = 0;
  REFUSED(start_with(&config), ncclInvalidArgument, "nChannelsPerNetPeer 0: expected at least 1");
  config = fresh, config.netName = "IB";
  REFUSED(start_with(&config), ncclInvalidUsage, "not offered by Rondo: config netName \"IB\"");
}

static void check_all(ncclComm_t comm, int rank) {
  int number = -1;
  WELL(ncclCommUserRank(comm, &number));
  EXPECT(number == rank);
  WELL(ncclCommCount(comm, &number));
  EXPECT(number == ranks);
  check_texts();
  check_reductions(comm, rank);
  check_moves(comm, rank);
  check_groups(comm, rank);
  check_streams(comm, rank);
  check_memory(comm, rank);
  check_splits(comm, rank);
  check_shrinks(comm, rank);
  check_growth(comm, rank);
  check_errors(comm, rank);
}

/* Nothing but the program's own calls is in the ledger, which NCCL's communicators have too. */
static void check_ledger(ncclComm_t comm) {
  char text[4096] = "";
  size_t size = sizeof text;
  EXPECT(rondoLedgerJson((rondoComm_t)comm, text, &size) == rondoSuccess);
  EXPECT(strstr(text, "broadcast") == NULL);
}

/* ---- ranks as threads ---- */

typedef struct {
  ncclComm_t comm;
  int rank;
} Seat;

static pthread_barrier_t all_are_through;

static void* run_seat(void* argument) {
  const Seat* seat = argument;
  check_ledger(seat->comm);
  check_all(seat->comm, seat->rank);
  pthread_barrier_wait(&all_are_through); /* an abort ends calls that others have not come back from yet */
  /* Rank 3 leaves without a word while the others wait for it: they hear of it, and go on without. */
  int out[] = {3}, value = 1;
  ncclComm_t left = NULL;
  if (seat->rank == 3) {
    WELL(ncclCommAbort(seat->comm));
    return NULL;
  }
  REFUSED(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, seat->comm, NULL), ncclRemoteError, "rank 3");
  ncclResult_t async = ncclSuccess;
  WELL(ncclCommGetAsyncError(seat->comm, &async));
  EXPECT(async == ncclRemoteError);
  WELL(ncclCommShrink(seat->comm, out, 1, &left, NULL, NCCL_SHRINK_ABORT));
  expect_sum(left, 3, seat->rank);
  WELL(ncclCommDestroy(seat->comm));
  WELL(ncclCommDestroy(left));
  return NULL;
}

static void run_threads(void) {
  ncclComm_t comms[ranks];
  pthread_t threads[ranks];
  Seat seats[ranks];
  EXPECT(pthread_barrier_init(&all_are_through, NULL, ranks) == 0);
  WELL(ncclCommInitAll(comms, ranks, NULL));
  for (int rank = 0; rank < ranks; ++rank) {
    const Seat seat = {comms[rank], rank};
    seats[rank] = seat;
    EXPECT(pthread_create(&threads[rank], NULL, run_seat, &seats[rank]) == 0);
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT(pthread_join(threads[rank], NULL) == 0);
}

/* As nccl-tests does it: one thread makes all ranks, and their calls, in groups. */
static void run_in_one_thread(void) {
  ncclComm_t comms[ranks], halves[ranks];
  ncclUniqueId ids[2];
  double values[ranks];
  WELL(ncclGetUniqueId(&ids[0]));
  WELL(ncclGetUniqueId(&ids[1]));
  WELL(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank)
    WELL(ncclCommInitRankScalable(&comms[rank], ranks, rank, 2, ids, NULL));
  WELL(ncclGroupEnd());
  WELL(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    values[rank] = rank + 1;
    WELL(ncclAllReduce(&values[rank], &values[rank], 1, ncclFloat64, ncclSum, comms[rank], NULL));
  }
  WELL(ncclGroupEnd());
  WELL(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) WELL(ncclCommSplit(comms[rank], rank / 2, 0, &halves[rank], NULL));
  WELL(ncclGroupEnd());
  for (int rank = 0; rank < ranks; ++rank) {
    int number = 0;
    EXPECT(values[rank] == 10);
    WELL(ncclCommCount(halves[rank], &number));
    EXPECT(number == 2);
    WELL(ncclCommDestroy(halves[rank]));
  }
  for (int rank = 0; rank < ranks; ++rank) WELL(ncclCommDestroy(comms[rank]));

  /* What goes wrong in a group is told at its end, with the function's name. */
  WELL(ncclGroupStart());
  WELL(ncclCommInitRank(&comms[0], 1, ids[0], 5));
  REFUSED(ncclGroupEnd(), ncclInvalidArgument, "ncclGroupEnd: ncclCommInitRank: rank 5");
  EXPECT(comms[0] == NULL);
}

/* ---- ranks as processes ---- */

static void write_id(const char* path) {
  char temporary[4096];
  ncclUniqueId id;
  WELL(ncclGetUniqueId(&id));
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE* file = fopen(temporary, "wb");
  EXPECT(file != NULL && fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
  EXPECT(rename(temporary, path) == 0);
}

static ncclUniqueId read_id(const char* path) {
  ncclUniqueId id;
  FILE* file = NULL;
  for (int i = 0; i < 3000 && file == NULL; ++i) {
    file = fopen(path, "rb");
    if (file == NULL) usleep(10000);
  }
  EXPECT(file != NULL && fread(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
  return id;
}

static void run_rank(ncclUniqueId id, int rank) {
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  WELL(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
  check_ledger(comm);
  check_all(comm, rank);
  if (rank == 0) check_configs();
  WELL(ncclCommFinalize(comm));
  WELL(ncclCommDestroy(comm));
  REFUSED(ncclCommDestroy(comm), ncclInvalidArgument, "ncclCommDestroy: comm");
}

/* Rank 3 ends; those who are left see it, and go on without it. */
static void lose_a_rank(ncclUniqueId id, int rank) {
  ncclComm_t comm = NULL, left = NULL;
  int out[] = {3}, value = 1;
  WELL(ncclCommInitRank(&comm, ranks, id, rank));
  if (rank == 3) _exit(0);
  REFUSED(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, NULL), ncclRemoteError, "rank 3");
  WELL(ncclCommShrink(comm, out, 1, &left, NULL, NCCL_SHRINK_ABORT));
  expect_sum(left, 3, rank);
  WELL(ncclCommDestroy(comm));
  WELL(ncclCommDestroy(left));
}

static void fork_ranks(const char* path, void (*body)(ncclUniqueId, int)) {
  write_id(path);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      body(read_id(path), rank);
      exit(0);
    }
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  EXPECT(failed == 0);
}

static void run_processes(void) {
  char folder[] = "/tmp/nccl_program.XXXXXX", path[64];
  EXPECT(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/id", folder);
  fork_ranks(path, run_rank);
  fork_ranks(path, lose_a_rank);
  EXPECT(unlink(path) == 0 && rmdir(folder) == 0);
}

static void run_launched(const char* path) {
  const char *rank_text = getenv("RANK"), *size_text = getenv("WORLD_SIZE");
  EXPECT(rank_text != NULL && size_text != NULL && atoi(size_text) == ranks);
  if (atoi(rank_text) == 0) write_id(path);
  run_rank(read_id(path), atoi(rank_text));
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "threads") == 0) {
    run_threads();
    run_in_one_thread();
  } else if (argc == 2 && strcmp(argv[1], "processes") == 0) {
    run_processes();
  } else if (argc == 3 && strcmp(argv[1], "launched") == 0) {
    run_launched(argv[2]);
  } else {
    fprintf(stderr, "usage: nccl_program threads | processes | launched ID_FILE\n");
    return 2;
  }
  return 0;
}
