#include "runtime/state/step_ledger.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <variant>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

committed_step step(std::uint64_t iteration, std::uint64_t salt = 0) {
  return {.at = {.iteration = iteration, .consumed = 8 * iteration},
          .state = {iteration, salt},
          .parts = {{"w", {iteration, salt}}, {"b", {iteration, 0}}}};
}

}  // namespace

TEST_CASE("LEDGER-1: each step is committed once, in order") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  CHECK(x.newest() == 10);
  x.commit(step(11));
  CHECK(x.newest() == 11);
  CHECK_THROWS_MATCHES(
      x.commit(step(11)), broken_promise, MessageMatches(ContainsSubstring("LEDGER-1")));
  CHECK_THROWS_MATCHES(
      x.commit(step(13)), broken_promise, MessageMatches(ContainsSubstring("LEDGER-1")));
  CHECK(x.newest() == 11);
}

TEST_CASE("LEDGER-2: a step that runs again gives the same state") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  for (std::uint64_t n = 11; n <= 20; ++n)
    x.commit(step(n));
  x.replay(step(20));
  x.replay(step(11));
  // The parameters that differ are named while they are known; the difference is always found.
  CHECK_THROWS_MATCHES(x.replay(step(20, 1)),
                       broken_promise,
                       MessageMatches(ContainsSubstring("LEDGER-2: step 20 ran again")
                                      && ContainsSubstring("it differs in w")));
  CHECK_THROWS_MATCHES(
      x.replay(step(11, 1)), broken_promise, MessageMatches(ContainsSubstring("step 11")));
  CHECK_THROWS_AS(x.replay(step(21)), broken_promise);
}

TEST_CASE("a ledger knows for every step whether it was skipped") {
  const tests::scratch_folder folder;
  const auto file = folder.path() / "ledger";
  const std::set<std::uint64_t> left_out{11, 13, 14, 20};
  const auto knows_all = [&](const step_ledger& x) {
    for (std::uint64_t n = 9; n <= 22; ++n)
      CHECK(x.was_left_out(n) == left_out.contains(n));
  };
  {
    step_ledger x;
    x.write_down(file);
    training_position at{.iteration = 10, .consumed = 80, .skipped = {.iterations = 3}};
    x.begin(at);
    while (at.iteration < 20) {
      ++at.iteration;
      at.skipped.iterations += left_out.contains(at.iteration) ? 1 : 0;
      x.commit({at, {at.iteration, 0}, {}});
    }
    knows_all(x);
    x.flush();
  }
  step_ledger again;
  again.take_up(read_ledger(file));
  knows_all(again);
}

TEST_CASE("LEDGER-3: a superseded supervisor cannot write") {
  step_ledger x;
  x.by(0)->begin({.iteration = 10, .consumed = 80});
  x.by(0)->commit(step(11));
  x.belongs_to(1);
  CHECK_THROWS_AS(x.by(0)->commit(step(12)), cancelled);
  CHECK_THROWS_AS(x.by(0)->saved(11), cancelled);
  CHECK(x.newest() == 11);
  CHECK_FALSE(x.newest_saved());
  x.by(1)->commit(step(12));
  CHECK(x.newest() == 12);
}

TEST_CASE("a ledger knows the training positions of the newest and the saved steps") {
  step_ledger x;
  x.begin({.iteration = 10, .consumed = 80});
  for (std::uint64_t n = 11; n <= 20; ++n) {
    if (n == 15)
      x.keep_position({.iteration = 14, .consumed = 112});
    x.commit(step(n));
  }
  CHECK(x.position(20)->consumed == 160);
  CHECK(x.position(19)->consumed == 152);
  CHECK_FALSE(x.position(12));
  CHECK(x.position(14)->consumed == 112);
  CHECK(x.position(10)->consumed == 80);
  CHECK(x.state(12) == digest{12, 0});
  CHECK(x.state(10) == digest{});
  x.saved(14);
  CHECK(x.newest_saved() == 14);
  CHECK(x.position(14));
  x.saved(18);
  CHECK_FALSE(x.position(14));
  CHECK(x.position(10));
}

TEST_CASE("the position of a checkpoint stays known during any number of local steps") {
  const tests::scratch_folder folder;
  step_ledger x;
  x.write_down(folder / "ledger.jsonl");
  x.begin({.iteration = 10});
  for (std::uint64_t n = 11; n <= 200; ++n) {
    x.commit(step(n));
    x.keep_position(step(n).at, true);
    if (n == 20)
      x.keep_position(step(n).at);
  }
  x.flush();
  step_ledger y;
  y.take_up(read_ledger(folder / "ledger.jsonl"));
  for (auto* const one : {&x, &y}) {
    REQUIRE(one->position(20));
    CHECK(one->position(20)->consumed == 160);
    CHECK(one->position(10));
    CHECK(one->position(200 - 63));  // the maximum number of positions
    CHECK_FALSE(one->position(200 - 64));
    one->saved(20);
    CHECK(one->position(20));
  }
}

TEST_CASE("reports to a monitor are numbered, and the newest are kept") {
  step_ledger x;
  for (std::uint64_t n = 1; n <= 300; ++n)
    CHECK(x.tell(step_report{.iteration = n}) == n);
  const auto facts = x.facts();
  CHECK(facts.size() == 256);
  CHECK(facts.front().first == 45);
  CHECK(std::get<step_report>(facts.front().second).iteration == 45);
  CHECK(facts.back().first == 300);
}

TEST_CASE("a report has its losses in the ledger only if there are several") {
  const auto through = [](const watched& x) {
    const auto text = text_of(ledger::told{1, x});
    const auto read = std::get<ledger::told>(read_ledger_record(text, "a test"));
    CHECK(read.fact == x);
    return text;
  };
  step_report x{.iteration = 3, .loss = 4.5};
  const auto plain = through(x);
  x.losses = {{"lm loss", 4}, {"sop loss", 0.5}};
  auto several = through(x);
  const auto list = fmt::format(",[[\"lm loss\",{}],[\"sop loss\",{}]]",
                                std::bit_cast<std::uint64_t>(4.0),
                                std::bit_cast<std::uint64_t>(0.5));
  const auto at = several.find(list);
  REQUIRE(at != std::string::npos);
  CHECK(several.erase(at, list.size()) == plain);
  x.experts = {{.layer = "decoder.layers.1", .most = 5, .entropy = 0.75, .counts = {5, 0}}};
  through(x);
  CHECK(through(validation_report{.iteration = 3, .loss = 4.5}).find("false]")
        != std::string::npos);
  through(validation_report{3, 4.5, true, {{"lm loss", 4.5}, {"sop loss", 0}}});
  const validation_report over_nothing{3, 4.5, false, {{"lm loss", 4.5}, {"sop loss", NAN}}};
  const auto read = std::get<ledger::told>(
      read_ledger_record(text_of(ledger::told{1, over_nothing}), "a test"));
  CHECK(std::isnan(std::get<validation_report>(read.fact).losses.back().mean));
}

TEST_CASE("LEDGER-4: a ledger read from its file equals the original") {
  const tests::scratch_folder folder;
  const auto file = folder / "ledger.jsonl";
  step_ledger x;
  x.write_down(file);
  x.begin({.iteration = 10, .consumed = 80, .skipped = {1, 8, 1, 0}, .scale = {65536, 3, 2, 0}});
  CHECK_FALSE(x.says_job());
  x.is_of({R"({"model":"a \"name\""})", 2, "the model '/one'"});
  x.keepers({1, 0});
  x.avoid({1, 2});
  x.avoid({1, 2});
  x.avoid({0, 2});
  for (std::uint64_t n = 11; n <= 20; ++n) {
    x.commit(step(n));
    x.tell(step_report{.iteration = n,
                       .consumed_samples = 8 * n,
                       .global_batch_size = 8,
                       .loss = n == 15 ? std::nan("") : 0.1 * double(n),
                       .grad_norm = std::numeric_limits<double>::infinity(),
                       .state = {n, 0}});
  }
  x.replay(step(20));
  x.tell(run_event{.iteration = 20, .kind = "restart", .who = "stage:0.\"\n", .seconds = 0.25});
  x.add({.at_ns = 7, .who = "process:1", .step = 20});
  x.keep_position({.iteration = 18, .consumed = 144});
  x.saved(18);
  x.validated(19);
  x.tell(validation_report{.iteration = 19, .loss = 1e-300, .test = true});
  x.tested();
  x.command({.step = 21, .what = commands::learning_rate{1e-4}, .factor = 0.1, .by = "local"});
  x.command({.step = 21, .what = commands::replace{"node-\"1"}, .by = "[::1]:7"});
  x.drain("Ctrl-C");
  x.flush();

  const auto all = read_ledger(file);
  CHECK(complaints_of(all).empty());
  step_ledger y;
  y.take_up(all);
  CHECK(y.newest() == 20);
  CHECK(y.says_job());
  CHECK(y.keepers() == x.keepers());
  CHECK(y.avoided() == std::set<ledger::avoided>{{0, 2}, {1, 2}});
  CHECK(std::count_if(all.begin(),
                      all.end(),
                      [](const auto& one) { return std::holds_alternative<ledger::avoided>(one); })
        == 2);
  CHECK(y.restarts() == x.restarts());
  CHECK(y.newest_saved() == 18);
  CHECK(y.newest_validated() == 19);
  CHECK(y.is_tested());
  CHECK(y.draining() == "Ctrl-C");
  for (std::uint64_t n = 10; n <= 20; ++n) {
    INFO(n);
    CHECK(y.state(n) == x.state(n));
    REQUIRE(y.position(n).has_value() == x.position(n).has_value());
    if (const auto at = y.position(n)) {
      CHECK(at->consumed == x.position(n)->consumed);
      CHECK(at->skipped == x.position(n)->skipped);
      CHECK(at->scale == x.position(n)->scale);
    }
  }
  // NaN does not equal itself, so texts are compared.
  const auto texts = [](const step_ledger& of) {
    std::string out;
    for (const auto& [number, fact] : of.facts())
      out += text_of(ledger::told{number, fact}) + "\n";
    return out;
  };
  CHECK(texts(y) == texts(x));
  REQUIRE(y.commands().size() == 2);
  CHECK(y.commands().front().factor == 0.1);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(text_of(ledger_record(y.commands()[i])) == text_of(ledger_record(x.commands()[i])));

  SECTION("only an empty ledger can read a file, and only once") {
    CHECK_THROWS_AS(x.write_down(folder / "other"), broken_promise);
    CHECK_THROWS_AS(x.take_up(all), broken_promise);
  }
  SECTION("a different state is written before it is refused") {
    CHECK_THROWS_AS(x.by(0)->replay(step(20, 1)), replay_differs);
    const auto wrong = complaints_of(read_ledger(file));
    REQUIRE(wrong.size() == 1);
    CHECK_THAT(wrong.front(), ContainsSubstring("iteration 20 ran again with the result"));
    CHECK_THROWS_AS(step_ledger().take_up(read_ledger(file)), replay_differs);
  }
  SECTION("an incomplete last line is dropped, and a damaged line is named") {
    const auto text = read_text(file);
    write_text(file, text + R"({"committed":{"iter)");
    CHECK(read_ledger(file).size() == all.size());
    write_text(file, text + "{\"committed\":{}}\n");
    CHECK_THROWS_MATCHES(
        read_ledger(file),
        input_error,
        MessageMatches(ContainsSubstring(fmt::format("ledger.jsonl', line {}", all.size() + 1))
                       && ContainsSubstring("is not a record of a ledger")));
  }
}

TEST_CASE("LEDGER-4: the successor of a dead process appends to its ledger") {
  const tests::scratch_folder folder;
  const auto file = folder / "ledger.jsonl";
  {
    step_ledger x;
    x.write_down(file);
    x.by(0)->begin({.iteration = 10, .consumed = 80});
    x.belongs_to(1);
    x.by(1)->commit(step(11));
  }
  const auto before = read_text(file);
  // The process was killed while it wrote this line.
  write_text(file, before + R"({"committed":{"iter)");
  {
    step_ledger y;
    y.go_on_in(file);
    CHECK(y.newest() == 11);
    CHECK(y.epoch() == 1);
    CHECK_THROWS_AS(y.by(0)->commit(step(12)), cancelled);
    y.belongs_to(y.epoch() + 1);
    y.by(2)->commit(step(12));
  }
  const auto text = read_text(file);
  CHECK(text.starts_with(before));
  const auto all = read_ledger(file);
  CHECK(complaints_of(all).empty());
  step_ledger z;
  z.take_up(all);
  CHECK(z.newest() == 12);
  CHECK(z.epoch() == 2);

  SECTION("a supervisor that succeeds itself is reported") {
    write_text(file, text + "{\"succeeded\":2}\n");
    const auto wrong = complaints_of(read_ledger(file));
    REQUIRE(wrong.size() == 1);
    CHECK_THAT(wrong.front(), ContainsSubstring("epoch 2 took over from one of epoch 2"));
  }
  SECTION("supervisors can die before the run begins") {
    step_ledger w;
    w.write_down(folder / "late");
    w.add({.at_ns = 7, .who = "supervisor", .step = 1});
    w.belongs_to(1);
    w.by(1)->begin({.iteration = 10, .consumed = 80});
    w.flush();
    CHECK(complaints_of(read_ledger(folder / "late")).empty());
    step_ledger v;
    v.go_on_in(folder / "late");
    CHECK(v.newest() == 10);
    CHECK(v.epoch() == 1);
  }
  SECTION("a ledger without its beginning is refused") {
    write_text(file, text.substr(text.find('\n') + 1));
    step_ledger w;
    CHECK_THROWS_MATCHES(w.go_on_in(file),
                         input_error,
                         MessageMatches(ContainsSubstring("its beginning is missing")));
  }
}

TEST_CASE("LEDGER-4: a removed ledger file is written again completely") {
  const tests::scratch_folder folder;
  const auto file = folder / "ledger.jsonl";
  step_ledger x;
  x.write_down(file);
  x.by(0)->begin({.iteration = 10, .consumed = 80});
  constexpr std::uint64_t steps = 2000;  // more than one copy operation holds
  for (std::uint64_t n = 11; n <= steps; ++n)
    x.by(0)->commit(step(n));
  const auto before = read_text(file);
  REQUIRE(before.size() > 65536);
  std::filesystem::remove(file);
  SECTION("with the next record") {
    x.by(0)->commit(step(steps + 1));
    const auto now = read_text(file);
    CHECK(now.substr(0, before.size()) == before);
    const auto all = read_ledger(file);
    CHECK(complaints_of(all).empty());
    step_ledger y;
    y.take_up(all);
    CHECK(y.newest() == steps + 1);
  }
  SECTION("a file in its place, possibly of another run, is left alone") {
    write_text(file, "mine\n");
    x.by(0)->commit(step(steps + 1));
    CHECK(read_text(file) == "mine\n");
    std::filesystem::remove(file);
    x.by(0)->commit(step(steps + 2));
    CHECK(complaints_of(read_ledger(file)).empty());
    CHECK(read_text(file).substr(0, before.size()) == before);
  }
}

TEST_CASE("a truncated ledger is reported as damaged") {
  const tests::scratch_folder folder;
  const auto file = folder / "ledger.jsonl";
  step_ledger x;
  x.write_down(file);
  x.by(0)->begin({});
  x.by(0)->commit(step(1));
  std::filesystem::resize_file(file, 0);
  CHECK_FALSE(complaints_of(read_ledger(file)).empty());
  x.by(0)->keepers({1, 0});
  CHECK_FALSE(complaints_of(read_ledger(file)).empty());
  x.by(0)->commit(step(2));
  CHECK_FALSE(complaints_of(read_ledger(file)).empty());
  CHECK(x.newest() == 2);  // the step still counts
}

TEST_CASE("errors of a run are found in its ledger") {
  using namespace ledger;
  const auto at = [](std::uint64_t n, std::uint64_t consumed) {
    return training_position{.iteration = n, .consumed = consumed};
  };
  const auto report = [](std::uint64_t n, std::uint64_t consumed) {
    return step_report{
        .iteration = n, .consumed_samples = consumed, .global_batch_size = 8, .state = {n, 0}};
  };
  const std::vector<ledger_record> good{begun{at(0, 0)},
                                        committed{at(1, 8), {1, 0}},
                                        ledger::told{1, report(1, 8)},
                                        committed{at(2, 16), {2, 0}},
                                        ledger::told{2, report(2, 16)},
                                        replayed{2, {2, 0}},
                                        saved{2}};
  CHECK(complaints_of(good).empty());
  const auto with = [&](std::size_t place, const ledger_record& other) {
    auto all = good;
    all[place] = other;
    return all;
  };
  const auto without = [&](std::size_t place) {
    auto all = good;
    all.erase(all.begin() + std::ptrdiff_t(place));
    return all;
  };
  CHECK_FALSE(complaints_of({}).empty());
  CHECK_FALSE(complaints_of({keepers{{1, 0}}}).empty());
  CHECK_FALSE(complaints_of(without(0)).empty());
  CHECK_FALSE(complaints_of(without(1)).empty());
  CHECK_FALSE(complaints_of(without(2)).empty());
  CHECK_FALSE(complaints_of(without(3)).empty());
  CHECK_FALSE(complaints_of(with(3, committed{at(1, 16), {2, 0}})).empty());
  CHECK_FALSE(complaints_of(with(3, committed{at(2, 8), {2, 0}})).empty());
  CHECK_FALSE(complaints_of(with(3, committed{at(2, 24), {2, 0}})).empty());
  CHECK_FALSE(complaints_of(with(4, ledger::told{2, report(1, 8)})).empty());
  CHECK_FALSE(complaints_of(with(4, ledger::told{1, report(2, 16)})).empty());
  CHECK_FALSE(complaints_of(with(5, replayed{2, {2, 1}})).empty());
  CHECK_FALSE(complaints_of(with(5, replayed{3, {2, 0}})).empty());
  CHECK_FALSE(complaints_of(with(6, saved{3})).empty());
  CHECK(complaints_of(with(6, commanded{.step = 3, .what = commands::pause{}})).empty());
  CHECK_FALSE(complaints_of(with(6, commanded{.step = 4, .what = commands::pause{}})).empty());
  CHECK_FALSE(complaints_of(with(6, begun{at(0, 0)})).empty());
}

TEST_CASE("a failing disk does not stop steps: the ledger is written later") {
  const tests::scratch_folder folder;
  step_ledger x;
  CHECK_THROWS_AS(x.write_down(folder / "none" / "ledger.jsonl"), io_error);
  step_ledger full;
  full.write_down("/dev/full");
  full.begin({});
  for (std::uint64_t n = 1; n <= 20; ++n)
    full.by(0)->commit(step(n));
  CHECK(full.newest() == 20);
}

TEST_CASE("a hanging disk blocks only the writer of the ledger") {
  const tests::scratch_folder folder;
  const auto pipe = (folder / "ledger").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  {
    step_ledger x;
    x.write_down(pipe);
    x.by(0)->begin({});
    std::atomic<std::uint64_t> committed = 0;
    std::jthread writer([&] {
      for (std::uint64_t n = 1; n <= 2000; ++n) {
        x.by(0)->commit(step(n));
        committed = n;
      }
    });
    std::uint64_t seen = 0;
    for (int still = 0; still < 20; still = seen == committed ? still + 1 : 0) {
      seen = committed;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    REQUIRE(committed < 2000);  // the pipe is full, and the writer is blocked in write(2)
    x.belongs_to(0);
    x.by(0)->keep_position({.iteration = 1});
    CHECK(x.newest() >= committed);
    CHECK(x.restarts().empty());
    std::array<char, 65536> bytes;
    while (committed < 2000)
      if (::read(reader, bytes.data(), bytes.size()) < 0)
        std::this_thread::yield();
  }
  ::close(reader);
}
