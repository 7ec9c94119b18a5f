// What can go wrong, by whose fault.
//
//   input_error     the user's file, flag, configuration or message is wrong       exit code 2
//   io_error        the system refused: disk full, no permission, connection lost  exit code 2
//   cancelled       somebody ended the generation that this work belonged to       not a fault
//   broken_promise  a promise written in this repository was broken                exit code 3
//
// A message says what was tried, on what, what the system said, and what to do.

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

/// Another process is gone, or cannot be reached: its end is the cause, whoever throws this.
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

/// Always on. `promise` names the invariant and says it in words, e.g. "HANDOFF-1: one activation
/// for each microbatch".
inline void ensure(bool kept, const char* promise) {
  if (!kept)
    throw broken_promise(promise);
}

/// The text of `errno`, e.g. "No space left on device".
std::string system_message(int error_number);

/// Runs a check that throws; what it throws becomes a sentence, so that all are told at once.
template <class Check>
void collect(std::vector<std::string>& wrong, Check&& check) {
  try {
    check();
  } catch (const error& failure) {
    wrong.emplace_back(failure.what());
  }
}

}  // namespace troupe::runtime
