// Stands for a libucp.so.0 that is older than any which Rondo is built with.
extern "C" __attribute__((visibility("default"))) void ucp_get_version(unsigned* major, unsigned* minor,
                                                                       unsigned* release) {
  *major = 1;
  *minor = 9;
  *release = 4;
}
