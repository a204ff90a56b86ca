/* rondo.h is C: this file is only compiled, as strict C11. */
#include "rondo/rondo.h"

rondoResult_t use(rondoComm_t comm, rondoStream_t stream);

rondoResult_t use(rondoComm_t comm, rondoStream_t stream) {
  rondoConfig_t config = RONDO_CONFIG_INITIALIZER;
  rondoUniqueId id;
  float value = 1;
  rondoResult_t result = rondoGetUniqueId(&id);
  if (result != rondoSuccess) return result;
  result = rondoCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result != rondoSuccess) return result;
  return rondoAllReduce(&value, &value, 1, rondoFloat32, rondoSum, comm, stream);
}
