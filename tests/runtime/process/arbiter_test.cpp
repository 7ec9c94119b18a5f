// Election of the process that continues a run.

#include "runtime/process/arbiter.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::scratch_folder;

namespace {

contender named(const std::string& who) {
  return {who, "host '" + who + "' leads this run"};
}

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator all(folder);
  return std::size_t(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("ARBITER-1: one contender wins a round; its second claim succeeds, too", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "0123456789abcdef");
  CHECK_FALSE(x.is_seen());
  CHECK_THROWS_AS(x.claim(1, named("a")), io_error);  // no folder yet: the claim is undecided
  x.open(named("first"));
  CHECK(x.is_seen());
  CHECK(x.winner(1) == named("first"));
  CHECK(!x.winner(2));
  std::atomic<int> won = 0;
  std::vector<std::thread> all;
  for (int n = 0; n < 16; ++n)
    all.emplace_back([&, n] {
      const arbiter by(save.path(), "0123456789abcdef");
      won += by.claim(2, named(std::to_string(n))) ? 1 : 0;
    });
  for (auto& one : all)
    one.join();
  CHECK(won == 1);
  const auto winner = x.winner(2);
  int again = 0;
  for (int n = 0; n < 16; ++n)
    again += x.claim(2, named(std::to_string(n))) ? 1 : 0;
  CHECK(again == 1);
  REQUIRE(winner);
  CHECK(winner->text == named(winner->token).text);
  CHECK(x.claim(3, named("another")));
  CHECK(x.leader() == named("another"));
  CHECK(files_in(x.folder()) == 5);  // three rounds, the first contender, and its end marker
  CHECK_FALSE(arbiter(save.path(), "fedcba9876543210").is_seen());
}

TEST_CASE("ARBITER-1: a resigned round opens the next one", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  CHECK(x.open_round(2) == 2);
  CHECK(x.claim(2, named("a")));
  x.resign(2, named("a"));
  CHECK(x.open_round(2) == 3);
  CHECK_FALSE(x.leader());
  CHECK_FALSE(x.claim(2, named("b")));
  CHECK(x.claim(3, named("b")));
  CHECK(x.open_round(2) == 3);
}

TEST_CASE("without the arbiter's folder a claim and a query fail", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  std::filesystem::rename(save / ".succession", save.path().string() + ".hidden");
  CHECK_THROWS_AS(x.claim(2, named("a")), io_error);
  CHECK_THROWS_AS(x.winner(1), io_error);
  CHECK_THROWS_AS(x.leader(), io_error);
  CHECK_FALSE(x.is_replaced());  // the file system may be unmounted
  std::filesystem::remove_all(save.path().string() + ".hidden");
}

TEST_CASE("decisions of an arbiter are removed with its run, or by a later run", "[process]") {
  const scratch_folder save;
  const arbiter one(save.path(), "one"), two(save.path(), "two");
  one.open(named("a"));
  two.open(named("b"));
  CHECK(one.winner(1) == named("a"));  // the first run may continue
  two.forget_others();
  CHECK_FALSE(one.is_seen());
  CHECK(one.is_replaced());
  CHECK(two.is_seen());
  two.remove();
  CHECK(std::filesystem::is_empty(save.path()));
}

TEST_CASE("a prepared contender can claim and resign on a full disk", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  x.prepare(named("a"));
  const auto files = files_in(x.folder());
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handled = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit none = {0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  bool won = false, resigned = false, refused = false;
  try {
    won = x.claim(2, named("a"));
    x.resign(2, named("a"));
    resigned = x.open_round(2) == 3;
    x.claim(3, named("not prepared"));
  } catch (const io_error&) {
    refused = true;
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handled);
  CHECK(won);
  CHECK(resigned);
  CHECK(refused);
  CHECK_FALSE(x.winner(3));
  CHECK(files_in(x.folder()) == files + 2);  // the refused claim leaves no file
}

TEST_CASE("an ended run has no new leader; only its leader can end it", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  CHECK(x.claim(2, named("a")));
  CHECK_FALSE(x.end(named("first")));
  CHECK(x.leader() == named("a"));
  CHECK(x.end(named("a")));
  CHECK_FALSE(x.claim(3, named("first")));
  REQUIRE(x.winner(3));
  CHECK(x.winner(3)->is_end());
  CHECK_FALSE(x.winner(2)->is_end());
  CHECK(x.leader()->is_end());
  CHECK_FALSE(x.end(named("a")));  // it has ended
}

TEST_CASE("a contender resigns all rounds that it won, and only those", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  for (const std::uint32_t round : {2, 3})
    REQUIRE(x.claim(round, named("a")));
  REQUIRE(x.claim(4, named("b")));
  x.resign_all(2, named("first"));
  CHECK(x.open_round(2) == 2);
  x.resign_all(2, named("a"));
  CHECK(x.open_round(2) == 4);
  CHECK(x.leader() == named("b"));
}

TEST_CASE("a damaged decision file makes claims fail", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open(named("first"));
  std::ofstream(x.folder() / "round-2") << "0123";
  CHECK_THROWS_AS(x.winner(2), io_error);
  CHECK_THROWS_AS(x.claim(2, named("a")), io_error);
}

TEST_CASE("a contender is identified by the run's folder, however its path is written",
          "[process]") {
  const scratch_folder one, two;
  CHECK(contender_of(one.path()) == contender_of(one.path() / "."));
  CHECK(contender_of(one.path()).text == contender_of(std::filesystem::relative(one.path())).text);
  CHECK_FALSE(contender_of(one.path()) == contender_of(two.path()));
}
