// Exception types, by cause:
//
// input_error     a file, flag, configuration or message of the user is wrong     exit code 2
// io_error        the system refused: disk full, no permission, connection lost   exit code 2
// cancelled       the generation of this work has ended                           not a fault
// broken_promise  an invariant of this repository is broken                       exit code 3
//
// A message says what was tried, on what, what the system reported, and what to do.

#pragma once

#include <fmt/format.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class input_error : public error {
 public:
  template <class... Args>
  explicit input_error(fmt::format_string<Args...> text, Args&&... args)
      : error(fmt::format(text, std::forward<Args>(args)...)) {}
};

class io_error : public error {
 public:
  template <class... Args>
  explicit io_error(fmt::format_string<Args...> text, Args&&... args)
      : error(fmt::format(text, std::forward<Args>(args)...)) {}
};

/// Another process is gone or unreachable.
class peer_lost : public io_error {
 public:
  using io_error::io_error;
};

class cancelled : public error {
 public:
  cancelled() : error("cancelled: its generation has ended") {}
};

class broken_promise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// An assertion that is always on. `promise` names the invariant and states it, for example
/// "HANDOFF-1: one activation for each microbatch".
inline void ensure(bool kept, const char* promise) {
  if (!kept)
    throw broken_promise(promise);
}

/// The text of an errno value, for example "No space left on device".
std::string system_message(int error_number);

/// Runs a check and appends the message of its error to `wrong`, so that one message can report all
/// errors.
template <class Check>
void collect(std::vector<std::string>& wrong, Check&& check) {
  try {
    check();
  } catch (const error& failure) {
    wrong.emplace_back(failure.what());
  }
}

}  // namespace troupe::runtime
