// Ends the test program when one case takes longer than its limit, and names the case. Many cases
// share a process, and ctest's own timeout knows only the process.

#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

#include <csignal>
#include <cstddef>
#include <unistd.h>

namespace {

/// The handler may only read memory that is already there.
char running_case[256] = {};
std::size_t length = 0;

void name_and_end(int) {
  const auto say = [](const char* text, std::size_t size) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, size);
  };
  constexpr char before[] = "\ntimeout of the case '", after[] = "'\n";
  say(before, sizeof before - 1);
  say(running_case, length);
  say(after, sizeof after - 1);
  ::_exit(1);
}

class case_limit : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    length = info.name.copy(running_case, sizeof running_case);
    std::signal(SIGALRM, name_and_end);
    ::alarm(TROUPE_CASE_LIMIT);
  }

  void testCaseEnded(const Catch::TestCaseStats&) override { ::alarm(0); }
};

}  // namespace

CATCH_REGISTER_LISTENER(case_limit)
