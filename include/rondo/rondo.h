/* Rondo: collective communication whose every byte is accounted for. C interface.
 *
 * Names, argument order, counts, in-place rules and enum numbers follow nccl.h, so that who knows NCCL needs
 * no manual. The differences:
 *  - Buffers may be host memory or a GPU's, each for itself; ranks may differ. With all buffers on the host a
 *    null stream means: return when the call is done. On a stream of rondoStreamCreate a call returns at
 *    once, and the calls of one stream run in order.
 *  - A call with a buffer in a GPU's memory, or on a cudaStream_t (passed as a rondoStream_t), returns at
 *    once and runs in the order of that CUDA stream; null is CUDA's default stream. How that is carried out,
 *    and what cannot be: docs/gpu.md.
 *  - Every wait has a deadline (rondoConfig_t.timeout_ms), checks for abort and for a dead peer.
 *  - Calls that do not match between ranks (count, type, operator, root, call) fail on every rank with
 *    rondoInvalidUsage before any byte is moved; the communicator stays usable. A receive that does not fit
 * its send fails too, but then the communicator is of no more use.
 *  - A forked child cannot use its parent's communicators: its calls fail with rondoInvalidUsage, and disturb
 *    nobody.
 *
 * Threading: calls on different communicators may run at the same time in different threads. Calls on one
 * communicator are made by one thread at a time, except rondoCommAbort, rondoCommGetAsyncError and
 * rondoGetLastError, which may be called from any thread at any time.
 * No function throws. What went wrong is told by rondoGetLastError, one text for each thread. */
#ifndef RONDO_RONDO_H_
#define RONDO_RONDO_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_MAJOR 0
#define RONDO_MINOR 1
#define RONDO_PATCH 0
#define RONDO_VERSION_CODE (RONDO_MAJOR * 10000 + RONDO_MINOR * 100 + RONDO_PATCH)

/* The only symbols that librondo.so exports. */
#define RONDO_API __attribute__((visibility("default")))

typedef struct rondoComm* rondoComm_t;
typedef struct rondoStream* rondoStream_t;

#define RONDO_UNIQUE_ID_BYTES 128
/* Names one communicator to be. Whoever has it may join: keep it from strangers. */
typedef struct {
  char internal[RONDO_UNIQUE_ID_BYTES];
} rondoUniqueId;

typedef enum {
  rondoSuccess = 0,
  rondoUnhandledCudaError = 1,
  rondoSystemError = 2,     /* the operating system refused something */
  rondoInternalError = 3,   /* a fault of Rondo, such as a ledger that does not balance */
  rondoInvalidArgument = 4, /* a null pointer, a rank out of range, a handle that is no more */
  rondoInvalidUsage = 5,    /* calls that do not fit together */
  rondoRemoteError = 6,     /* a peer died */
  rondoInProgress = 7,      /* not done yet (rondoStreamQuery, rondoCommGetAsyncError) */
  rondoTimeout = 8,         /* a deadline passed */
  rondoAborted = 9,         /* the communicator was aborted, or has failed before */
  rondoNumResults = 10
} rondoResult_t;

typedef enum {
  rondoInt8 = 0,
  rondoChar = 0,
  rondoUint8 = 1,
  rondoInt32 = 2,
  rondoInt = 2,
  rondoUint32 = 3,
  rondoInt64 = 4,
  rondoUint64 = 5,
  rondoFloat16 = 6,
  rondoHalf = 6,
  rondoFloat32 = 7,
  rondoFloat = 7,
  rondoFloat64 = 8,
  rondoDouble = 8,
  rondoBfloat16 = 9,
  rondoNumTypes = 10
} rondoDataType_t;

/* Operators made by rondoRedOpCreatePreMulSum are numbered from rondoNumOps on. */
typedef enum {
  rondoSum = 0,
  rondoProd = 1,
  rondoMax = 2,
  rondoMin = 3,
  rondoAvg = 4, /* integers: truncates toward zero, after a sum that wraps */
  rondoNumOps = 5,
  rondoMaxRedOp = 0x7fffffff
} rondoRedOp_t;

typedef enum { rondoScalarDevice = 0, rondoScalarHostImmediate = 1 } rondoScalarResidence_t;

/* Set up with RONDO_CONFIG_INITIALIZER, then change what you need. */
typedef struct {
  size_t size; /* sizeof(rondoConfig_t): lets later versions add members */
  int64_t
      timeout_ms; /* deadline of each call and of the start; 0: never; -1: RONDO_TIMEOUT, else 10 minutes */
  int strict;     /* 1: a byte's difference between ledger and formula fails the call; -1: RONDO_STRICT */
  const char*
      algorithm; /* "auto", "ring", "direct", "one-shot", "doubling", "tree"; null: RONDO_ALGO, else auto */
  const char* name; /* stands in messages; null: a number */
} rondoConfig_t;
#define RONDO_CONFIG_INITIALIZER \
  { sizeof(rondoConfig_t), -1, -1, NULL, NULL }

/* ---- about the library ---- */
RONDO_API rondoResult_t rondoGetVersion(int* version);
RONDO_API const char* rondoGetErrorString(rondoResult_t result);
/* The text of the last error in this thread (comm is not needed, and may be null). Never null; valid until
 * the thread's next Rondo call that fails. */
RONDO_API const char* rondoGetLastError(rondoComm_t comm);

/* ---- communicators ---- */
/* Makes an id. Works in any process of this host, also in a parent that then forks the ranks. Nothing runs
 * behind it: the ranks find one another when they call rondoCommInitRank. It is good on this host, or, where
 * RONDO_COMM_ID=host:port names an address of rank 0's host, on all hosts that reach it. */
RONDO_API rondoResult_t rondoGetUniqueId(rondoUniqueId* id);
/* Whether a rank in this process could use the id: rondoInvalidUsage where it is good on another host only,
 * rondoInvalidArgument where it is none of rondoGetUniqueId. */
RONDO_API rondoResult_t rondoCheckUniqueId(rondoUniqueId id);
/* Collective over nranks processes or threads of this host. Fails in time, naming the ranks, when one does
 * not come, when two claim one rank, or when they name different sizes. Waits for all ranks, inside a group
 * too: one thread makes several ranks with rondoCommInitAll. */
RONDO_API rondoResult_t rondoCommInitRank(rondoComm_t* comm, int nranks, rondoUniqueId id, int rank);
RONDO_API rondoResult_t rondoCommInitRankConfig(rondoComm_t* comm, int nranks, rondoUniqueId id, int rank,
                                                const rondoConfig_t* config);
/* All ranks in this process, made by one thread. devlist may be null, and is not used on a host. */
RONDO_API rondoResult_t rondoCommInitAll(rondoComm_t* comms, int ndev, const int* devlist);
/* The world that a launcher made: from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT or RONDO_MASTER_PORT
 * (docs/tuning.md), as `rondo run` and torchrun set them. config may be null. */
RONDO_API rondoResult_t rondoCommInitEnv(rondoComm_t* comm, const rondoConfig_t* config);
/* Ranks of one colour make a communicator, ordered by key, then by old rank. A negative colour
 * (RONDO_SPLIT_NOCOLOR) takes part and gets a null communicator. config may be null: the parent's. */
#define RONDO_SPLIT_NOCOLOR (-1)
RONDO_API rondoResult_t rondoCommSplit(rondoComm_t comm, int color, int key, rondoComm_t* newcomm,
                                       const rondoConfig_t* config);
/* Waits until every call made on comm so far is done. On a CUDA stream the outputs are there when the stream
 * has been synchronized. */
RONDO_API rondoResult_t rondoCommFinalize(rondoComm_t comm);
/* Frees comm; waits for no peer. Calls still pending on streams fail, on every rank. The handle is invalid
 * from then on; a peer that waits for a call of this rank is told. */
RONDO_API rondoResult_t rondoCommDestroy(rondoComm_t comm);
/* Ends every pending call of comm on every rank with rondoAborted, and frees comm. Waits for no peer, but
   where one stores to memory of this rank (rondoMemAlloc) at this moment: until it is through, a second at
   most. */
RONDO_API rondoResult_t rondoCommAbort(rondoComm_t comm);
/* rondoSuccess, or what made comm fail; else, once, the error of a call on a CUDA stream that left comm
 * whole. */
RONDO_API rondoResult_t rondoCommGetAsyncError(rondoComm_t comm, rondoResult_t* async_error);
RONDO_API rondoResult_t rondoCommCount(const rondoComm_t comm, int* count);
RONDO_API rondoResult_t rondoCommUserRank(const rondoComm_t comm, int* rank);
/* Sets the deadline of the calls made from now on, at most 10^9 ms; 0: never. */
RONDO_API rondoResult_t rondoCommSetTimeout(rondoComm_t comm, int64_t timeout_ms);

/* ---- operators ---- */
/* op multiplies each rank's input by *scalar (one element of `type`, on the host) before the sum. All ranks
 * pass the same scalar. */
RONDO_API rondoResult_t rondoRedOpCreatePreMulSum(rondoRedOp_t* op, void* scalar, rondoDataType_t type,
                                                  rondoScalarResidence_t residence, rondoComm_t comm);
RONDO_API rondoResult_t rondoRedOpDestroy(rondoRedOp_t op, rondoComm_t comm);

/* ---- memory ---- */
/* Host memory, zeroed, that the ranks in other processes of this host can map. Calls whose buffers lie in it,
 * on every rank, move no byte more than they must: all-reduce wants both buffers in it, all-gather the
 * receive buffer, reduce-scatter the send buffer. Any part of it may be passed. Outside calls it is memory
 * like any other. */
RONDO_API rondoResult_t rondoMemAlloc(void** ptr, size_t size);
/* No call that uses it may be under way on any rank. null is fine. */
RONDO_API rondoResult_t rondoMemFree(void* ptr);

/* Tells that buff will be used in many calls of comm, as ncclCommRegister does. On a host that changes
 * nothing but this: with RONDO_WIN_EXCHANGE_PAGES, memory from malloc becomes what rondoMemAlloc gives, in
 * place. Address and content stay; the whole pages that hold buff are exchanged for shared ones, and with
 * them what else lies in the first and last of them. Ask for it only if you can promise that
 *  - no other thread writes to any of these pages during rondoCommWindowRegister and Deregister,
 *  - the memory is deregistered before it is freed,
 *  - no allocator gives the pages back underneath (MADV_DONTNEED would not zero them),
 *  - no forked child needs a copy of its own: it shares the pages with its parent.
 * Errors: memory that is not private heap memory (a stack, a file, shared memory, pages registered before).
 * Deregister while no call that uses the memory is under way on any rank; also after comm was aborted or
 * destroyed. */
typedef struct rondoWindow* rondoWindow_t;
#define RONDO_WIN_DEFAULT 0
#define RONDO_WIN_EXCHANGE_PAGES 0x100 /* no flag of NCCL */
RONDO_API rondoResult_t rondoCommWindowRegister(rondoComm_t comm, void* buff, size_t size, rondoWindow_t* win,
                                                int winFlags);
RONDO_API rondoResult_t rondoCommWindowDeregister(rondoComm_t comm, rondoWindow_t win);
/* The same with RONDO_WIN_DEFAULT, under NCCL's older names. */
RONDO_API rondoResult_t rondoCommRegister(const rondoComm_t comm, void* buff, size_t size, void** handle);
RONDO_API rondoResult_t rondoCommDeregister(const rondoComm_t comm, void* handle);

/* ---- collectives: counts in elements ---- */
/* In place: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       rondoDataType_t type, rondoRedOp_t op, rondoComm_t comm,
                                       rondoStream_t stream);
/* recvbuff: size x sendcount elements. In place: sendbuff == recvbuff + rank * sendcount. */
RONDO_API rondoResult_t rondoAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       rondoDataType_t type, rondoComm_t comm, rondoStream_t stream);
/* sendbuff: size x recvcount elements. In place: recvbuff == sendbuff + rank * recvcount; the rest of
 * sendbuff is left as it was. */
RONDO_API rondoResult_t rondoReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           rondoDataType_t type, rondoRedOp_t op, rondoComm_t comm,
                                           rondoStream_t stream);
/* sendbuff is read on root only. In place: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                       rondoDataType_t type, int root, rondoComm_t comm,
                                       rondoStream_t stream);
/* recvbuff is written on root only, and may be null elsewhere. In place: sendbuff == recvbuff. */
RONDO_API rondoResult_t rondoReduce(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                                    rondoRedOp_t op, int root, rondoComm_t comm, rondoStream_t stream);
/* Both buffers: size x count elements; block j of sendbuff goes to rank j. Not in place. */
RONDO_API rondoResult_t rondoAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                      rondoDataType_t type, rondoComm_t comm, rondoStream_t stream);
/* recvbuff: size x count elements on root. In place on root: sendbuff == recvbuff + root * count. */
RONDO_API rondoResult_t rondoGather(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                                    int root, rondoComm_t comm, rondoStream_t stream);
/* sendbuff: size x count elements on root. In place on root: recvbuff == sendbuff + root * count. */
RONDO_API rondoResult_t rondoScatter(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                                     int root, rondoComm_t comm, rondoStream_t stream);
/* A message to or from one peer; messages between two ranks arrive in the order sent. A send outside a group
 * may wait for its receive: two ranks that both send first meet in a group, or by their deadlines. */
RONDO_API rondoResult_t rondoSend(const void* sendbuff, size_t count, rondoDataType_t type, int peer,
                                  rondoComm_t comm, rondoStream_t stream);
RONDO_API rondoResult_t rondoRecv(void* recvbuff, size_t count, rondoDataType_t type, int peer,
                                  rondoComm_t comm, rondoStream_t stream);

/* ---- beyond NCCL ---- */
RONDO_API rondoResult_t rondoBarrier(rondoComm_t comm, rondoStream_t stream);
/* counts[r] elements come from rank r, one after another in recvbuff; every rank passes the same counts.
 * In place: sendbuff == recvbuff + the sum of the counts before this rank's. */
RONDO_API rondoResult_t rondoAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                        rondoDataType_t type, rondoComm_t comm, rondoStream_t stream);
/* counts[r] reduced elements go to rank r; every rank passes the same counts. In place as above. */
RONDO_API rondoResult_t rondoReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                            rondoDataType_t type, rondoRedOp_t op, rondoComm_t comm,
                                            rondoStream_t stream);

/* ---- groups ---- */
/* Calls of one kind, communicator, type and operator between start and end travel as one batched collective;
 * sends and receives of a communicator as one exchange. Members may not overlap. Groups nest. At a null
 * stream rondoGroupEnd returns when all are done that have host memory only, whatever order other ranks named
 * the communicators in. */
RONDO_API rondoResult_t rondoGroupStart(void);
RONDO_API rondoResult_t rondoGroupEnd(void);

/* ---- host streams (CUDA's are made and waited for with CUDA) ---- */
RONDO_API rondoResult_t rondoStreamCreate(rondoStream_t* stream);
/* Waits until all calls of the stream are done; gives the first error among them, once. */
RONDO_API rondoResult_t rondoStreamSynchronize(rondoStream_t stream);
/* rondoSuccess when all calls are done, else rondoInProgress. */
RONDO_API rondoResult_t rondoStreamQuery(rondoStream_t stream);
/* Waits as rondoStreamSynchronize does, then frees the stream. */
RONDO_API rondoResult_t rondoStreamDestroy(rondoStream_t stream);

/* ---- the ledger: bytes, counted by whoever copied them ---- */
typedef enum { rondoLedgerPayload = 0, rondoLedgerPadding = 1, rondoLedgerProtocol = 2 } rondoLedgerClass_t;
/* Calls made from now on are booked under `name` (for example "model/layer 0/forward") until the matching
 * end. */
RONDO_API rondoResult_t rondoLedgerScopeBegin(rondoComm_t comm, const char* name);
RONDO_API rondoResult_t rondoLedgerScopeEnd(rondoComm_t comm);
/* Collective: fills matrix[from * size + to] with the bytes moved since the last reset, merged over all
 * ranks. */
RONDO_API rondoResult_t rondoLedgerMatrix(rondoComm_t comm, rondoLedgerClass_t byte_class, uint64_t* matrix);
/* This rank's rows (scope, collective, algorithm, calls, expected and measured bytes) as JSON text. In: *size
 * is the room at text; out: the size needed, with the final zero. text may be null to ask for the size. */
RONDO_API rondoResult_t rondoLedgerJson(rondoComm_t comm, char* text, size_t* size);
RONDO_API rondoResult_t rondoLedgerReset(rondoComm_t comm);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_RONDO_H_ */
