#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/front_connection.hpp"
#include "runtime/process/front_messages.hpp"
#include "runtime/process/supervisor_process.hpp"
#include "runtime/process/unix_socket.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using std::chrono::milliseconds;

namespace {

constexpr auto long_beat = milliseconds(3'600'000);  // no heartbeat during a test
constexpr auto short_beat = milliseconds(1);
constexpr auto patience = milliseconds(50'000);  // reached by a hang only

/// Reads the messages to a front, and sends its requests.
class reader {
 public:
  explicit reader(descriptor connection) : connection_(std::move(connection)) {}

  supervisor_told next() {
    for (;;) {
      if (const auto text = received_.next())
        return read_supervisor_told(*text);
      pollfd wait{connection_.number(), POLLIN, 0};
      REQUIRE(::poll(&wait, 1, int(patience.count())) == 1);
      std::array<char, 65536> bytes;
      const auto size = ::recv(connection_.number(), bytes.data(), bytes.size(), 0);
      REQUIRE(size > 0);
      received_.feed({bytes.data(), std::size_t(size)});
    }
  }
  void say(const front_request& x) {
    const auto text = frame_of(text_of(x));
    REQUIRE(::send(connection_.number(), text.data(), text.size(), 0) == ssize_t(text.size()));
  }
  void close() { connection_.close(); }

 private:
  descriptor connection_;
  frame_reader received_;
};

struct pair {
  std::pair<descriptor, descriptor> ends = socket_pair();
  reader front{std::move(ends.first)};
  front_connection connection;
  explicit pair(milliseconds beat = long_beat)
      : connection(std::move(ends.second), beat, {.status_line_columns = 77, .output = true}) {}
};

}  // namespace

TEST_CASE("messages between a front and its run survive a round trip as text", "[process]") {
  const supervisor_told told[]
      = {line_told{severity::warning, "two\nlines, and a \" quote"},
         status_line_told{"[##--]"},
         status_line_told{},
         still_there{},
         end_told{},
         end_told{.exit_code = 2, .kind = complaint::input, .text = "why"}};
  for (const auto& x : told)
    CHECK(read_supervisor_told(text_of(x)) == x);
  for (const front_request& x :
       {front_request(end_asked{"SIGINT"}), front_request(terminal_resized{80})})
    CHECK(read_front_request(text_of(x)) == x);
  for (const auto* wrong : {"",
                            "{}",
                            "[]",
                            R"({"type": "line"})",
                            R"({"type": "x"})",
                            R"({"type": "line", "level": 9, "text": ""})"}) {
    CHECK_THROWS_AS(read_supervisor_told(wrong), input_error);
    CHECK_THROWS_AS(read_front_request(wrong), input_error);
  }
  const auto longest = text_of(line_told{severity::info, std::string(10'000'000, '"')});
  CHECK(longest.size() < longest_frame);
}

TEST_CASE("a front gets every line in order, and the end last", "[process]") {
  pair x;
  CHECK(x.connection.status_line_columns() == 77);
  CHECK(x.connection.output_is_terminal());
  constexpr int lines = 5000;
  for (int i = 0; i < lines; ++i)
    x.connection.take(severity::info, std::to_string(i));
  const std::jthread ending([&] { x.connection.end({.exit_code = 7}, patience); });
  for (int i = 0; i < lines; ++i)
    REQUIRE(x.front.next() == supervisor_told(line_told{severity::info, std::to_string(i)}));
  CHECK(x.front.next() == supervisor_told(end_told{.exit_code = 7}));
}

TEST_CASE("heartbeats continue after the end until the connection closes", "[process]") {
  pair x(short_beat);
  const std::jthread ending([&] { x.connection.end({.exit_code = 7}, patience); });
  while (x.front.next() != supervisor_told(end_told{.exit_code = 7})) {
  }
  for (int i = 0; i < 3; ++i)
    CHECK(x.front.next() == supervisor_told(still_there{}));
}

TEST_CASE("a process that reports its end but keeps running is killed", "[process]") {
  const troupe::tests::scratch_folder folder;
  write_text(folder / "end", frame_of(text_of(supervisor_told(end_told{.exit_code = 7}))));
  write_text(folder / "beat", frame_of(text_of(supervisor_told(still_there{}))));
  constexpr double suspicion = 0.3;
  supervisor_process x(suspicion);
  // It ends by itself long after ten suspicion timeouts; each `sleep` is a process of its own.
  x.start({"/bin/sh",
           "-c",
           "cd \"$0\"; cat end >&3; i=0; while [ $i -lt 3000 ]; do cat beat >&3; sleep 0.01; "
           "i=$((i + 1)); done",
           folder.path().string()},
          "");
  CHECK(x.next() == supervisor_told(end_told{.exit_code = 7}));
  CHECK_FALSE(x.next());
  CHECK(x.end().signal == SIGKILL);
  CHECK_FALSE(x.silence().empty());
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);  // restores the default for other tests
}

TEST_CASE("SHOWN-1: a front that does not read or is gone blocks no thread", "[process]") {
  pair x;
  constexpr int lines = 50'000;
  for (int i = 0; i < lines; ++i)
    x.connection.take(severity::info, fmt::format("{:0100}", i));
  // After it resumes it reads the first lines, the number of missing ones, and the newest.
  int seen = 0, missing = 0;
  for (std::string last; last != fmt::format("{:0100}", lines - 1);) {
    const auto told = std::get<line_told>(x.front.next());
    if (told.level == severity::warning)
      missing += std::stoi(told.text);
    else
      ++seen;
    last = told.text;
  }
  CHECK(missing > 0);
  CHECK(seen + missing == lines);

  x.front.close();
  for (int i = 0; i < lines; ++i)
    x.connection.take(severity::info, "nobody reads this");
  x.connection.end({}, patience);  // returns at once, as the front is gone
}

TEST_CASE("a front's request to end is delivered once, also before a listener exists",
          "[process]") {
  pair x(short_beat);
  x.front.say(end_asked{"SIGINT"});
  x.front.say(terminal_resized{40});
  while (x.connection.status_line_columns() != 40)
    CHECK(x.front.next() == supervisor_told(still_there{}));
  std::vector<std::string> heard;
  x.connection.tell_of_end_asked([&](const std::string& why) { heard.push_back(why); });
  x.front.say(end_asked{"SIGTERM"});
  x.front.say(terminal_resized{41});
  while (x.connection.status_line_columns() != 41)
    CHECK(x.front.next() == supervisor_told(still_there{}));
  x.connection.tell_of_end_asked({});
  CHECK(heard == std::vector<std::string>{"SIGINT"});
}

TEST_CASE("the log of a process with a front goes to that front", "[process]") {
  pair x;
  give_log_to(&x.connection);
  log_info("{} is told", "this");
  log_error("and that");
  show_status_line("[#---]");
  CHECK(status_line_columns() == 77);
  CHECK(output_is_terminal());
  CHECK(x.front.next() == supervisor_told(line_told{severity::info, "this is told"}));
  CHECK(x.front.next() == supervisor_told(line_told{severity::error, "and that"}));
  CHECK(x.front.next() == supervisor_told(status_line_told{"[#---]"}));
  clear_status_line();
  CHECK(x.front.next() == supervisor_told(status_line_told{}));
  give_log_to(nullptr);
}
