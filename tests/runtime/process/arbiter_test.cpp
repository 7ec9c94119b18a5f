// Who goes on with a run, where several think that they should.

#include "runtime/process/arbiter.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::scratch_folder;

TEST_CASE("ARBITER-1: of all who want a round one has it, and has it again", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "0123456789abcdef");
  CHECK_FALSE(x.is_seen());
  CHECK_THROWS_AS(x.claim(1, "a"), io_error);  // nobody knows, so nobody has won
  x.open("first");
  CHECK(x.is_seen());
  CHECK(x.winner(1) == "first");
  CHECK(x.winner(2).empty());
  std::atomic<int> won = 0;
  std::vector<std::thread> all;
  for (int n = 0; n < 16; ++n)
    all.emplace_back([&, n] {
      const arbiter by(save.path(), "0123456789abcdef");
      won += by.claim(2, std::to_string(n)) ? 1 : 0;
    });
  for (auto& one : all)
    one.join();
  CHECK(won == 1);
  const auto winner = x.winner(2);
  CHECK(x.claim(2, winner));
  CHECK_FALSE(x.claim(2, winner + "0"));
  CHECK(x.claim(3, "another"));
  CHECK_FALSE(arbiter(save.path(), "fedcba9876543210").is_seen());
}

TEST_CASE("ARBITER-1: who resigns a round opens the next one", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open("first");
  CHECK(x.open_round(2) == 2);
  CHECK(x.claim(2, "a"));
  x.resign(2);
  CHECK(x.open_round(2) == 3);
  CHECK_FALSE(x.claim(2, "b"));
  CHECK(x.claim(3, "b"));
  CHECK(x.open_round(2) == 3);
}

TEST_CASE("without the arbiter's folder nobody wins and nobody is known to have", "[process]") {
  const scratch_folder save;
  const arbiter x(save.path(), "run");
  x.open("first");
  std::filesystem::remove_all(save / ".succession");
  CHECK_THROWS_AS(x.claim(2, "a"), io_error);
  CHECK_THROWS_AS(x.winner(1), io_error);
}

TEST_CASE("what an arbiter has decided is removed with the run or by the next one", "[process]") {
  const scratch_folder save;
  const arbiter one(save.path(), "one"), two(save.path(), "two");
  one.open("a");
  two.open("b");
  CHECK_FALSE(one.is_seen());
  CHECK(two.is_seen());
  two.remove();
  CHECK(std::filesystem::is_empty(save.path()));
}

TEST_CASE("two folders of a run are two contenders, and a folder stays the same one", "[process]") {
  const scratch_folder one, two;
  CHECK(contender(one.path()) == contender(one.path()));
  CHECK(contender(one.path()) != contender(two.path()));
  std::filesystem::copy(one.path(), two / "again", std::filesystem::copy_options::recursive);
  CHECK(contender(one.path()) != contender(two / "again"));
}
