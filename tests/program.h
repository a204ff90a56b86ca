// Runs the `rondo` program, which the variable RONDO_PROGRAM names, as a user does: through a shell.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/temporary_folder.h"

namespace rondo::test {

struct Outcome {
  int status;  // the exit status, or -1 after a signal
  std::string out, err;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// `arguments` as one would type them.
inline Outcome run_program(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string command = "\"$RONDO_PROGRAM\" " + arguments + " >" + (folder / "out").string() + " 2>" +
                              (folder / "err").string();
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(folder / "out"),
          content_of(folder / "err")};
}

}  // namespace rondo::test
