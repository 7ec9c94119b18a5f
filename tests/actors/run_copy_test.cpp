// The copy of a run's folder that a standing node has.

#include "actors/process/run_copy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <filesystem>
#include <string>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

struct copied {
  copied() {
    runtime::make_credentials(node.credentials(), "node");
    told.record = runtime::text_of(record);
    told.save = save.path().string();
    told.directory = save.path().string();
  }

  std::filesystem::path copies() const { return node.path() / "runs"; }

  runtime::held_run_folder node = runtime::held_run_folder::temporary("test", {"test"});
  tests::scratch_folder save;
  const runtime::run_record record{.id = "0123456789abcdef",
                                   .program = "test",
                                   .command = {"troupe"},
                                   .started = "now",
                                   .ended = {}};
  messages::keep_run told{.address = "127.0.0.1",
                          .port = 7000,
                          .order = "5\nwords",
                          .description = "{}",
                          .round = 2,
                          .places = {1, 3}};
};

}  // namespace

TEST_CASE("a copy of a run's folder is one that a successor may take", "[actors]") {
  copied it;
  actors::run_copy copy(it.copies(), it.node.path(), it.told);
  const auto& folder = copy.folder();
  CHECK(folder.record() == it.record);
  CHECK(runtime::read_order(folder) == it.told.order);
  CHECK(runtime::read_description(folder) == "{}");
  CHECK(runtime::find_rendezvous(folder)
        == runtime::rendezvous_place{1, "127.0.0.1", 7000, {1, 3}, 2});
  CHECK(runtime::read_credentials(folder.credentials())
        == runtime::read_credentials(it.node.credentials()));
  const auto taken = runtime::held_run_folder::to_go_on(folder.path(), std::chrono::seconds(1));
  REQUIRE(taken);
  it.told.round = 3;
  copy.keep(it.told);
  CHECK(runtime::find_rendezvous(folder)->round == 3);
}

TEST_CASE("what a copy has of the ledger is what was told from that byte on, without a hole",
          "[actors]") {
  copied it;
  actors::run_copy copy(it.copies(), it.node.path(), it.told);
  const auto text = [&] { return runtime::read_text(copy.folder().ledger()); };
  CHECK(copy.keep(messages::keep_ledger{0, "one\n"}) == 4);
  CHECK(copy.keep(messages::keep_ledger{8, "three\n"}) == 4);
  CHECK(text() == "one\n");
  CHECK(copy.keep(messages::keep_ledger{4, "two\n"}) == 8);
  CHECK(text() == "one\ntwo\n");
  CHECK(copy.keep(messages::keep_ledger{4, "2\n"}) == 6);  // it was written anew
  CHECK(text() == "one\n2\n");
}

TEST_CASE("without credentials of its own a copy has the run's secret", "[actors]") {
  copied it;
  it.told.secret = std::string(64, 'a');
  const actors::run_copy copy(it.copies(), it.node.path(), it.told);
  CHECK(runtime::read_credentials(copy.folder().credentials()).secret == it.told.secret);
}

TEST_CASE("who does not see what decides could not go on and says what to do", "[actors]") {
  copied it;
  const runtime::arbiter by(it.save.path(), it.record.id);
  const actors::run_copy copy(it.copies(), it.node.path(), it.told);
  const auto here = copy.folder().path();
  CHECK_THAT(actors::why_not_here(it.told, here), ContainsSubstring("checkpoints.save"));
  by.open({"first", "host 'first' goes on with this run"});
  CHECK(actors::why_not_here(it.told, here).empty());
  it.told.directory = (it.save / "nowhere").string();
  CHECK_THAT(actors::why_not_here(it.told, here), ContainsSubstring("nowhere"));
}

TEST_CASE("who has won and cannot lead resigns what it has won and nothing else", "[actors]") {
  copied it;
  const runtime::arbiter by(it.save.path(), it.record.id);
  by.open({"first", "host 'first' goes on with this run"});
  const actors::run_copy one(it.copies(), it.node.path(), it.told),
      two(it.copies(), it.node.path(), it.told);
  const auto path = [](const actors::run_copy& x) { return x.folder().path(); };
  REQUIRE(by.claim(2, runtime::contender_of(path(one))));
  actors::resign_here(it.told, path(two));
  CHECK(by.open_round(2) == 2);
  actors::resign_here(it.told, path(one));
  CHECK(by.open_round(2) == 3);
  actors::resign_here(it.told, path(one));
  CHECK(by.open_round(2) == 3);
}

TEST_CASE("a copy that has not all of the ledger yet is not gone on from", "[actors]") {
  copied it;
  it.told.ledger = 8;
  actors::run_copy copy(it.copies(), it.node.path(), it.told);
  CHECK_FALSE(copy.is_complete());
  it.told.ledger = 800;  // what has come since is on its way
  copy.keep(it.told);
  copy.keep(messages::keep_ledger{0, "one\n"});
  CHECK_FALSE(copy.is_complete());
  copy.keep(messages::keep_ledger{4, "two\n"});
  CHECK(copy.is_complete());
}

TEST_CASE("a copy that nobody has used is removed and one in which a process leads is not",
          "[actors]") {
  copied it;
  const actors::run_copy first(it.copies(), it.node.path(), it.told);
  const actors::run_copy second(it.copies(), it.node.path(), it.told);
  CHECK(first.folder().path() != second.folder().path());
  {
    const auto leads
        = runtime::held_run_folder::to_go_on(first.folder().path(), std::chrono::seconds(1));
    REQUIRE(leads);
    CHECK_FALSE(first.remove_unless_used());
    CHECK(second.remove_unless_used());
    CHECK(std::filesystem::exists(first.folder().path()));
    CHECK_FALSE(std::filesystem::exists(second.folder().path()));
  }
  CHECK(first.remove_unless_used());
  CHECK(std::filesystem::is_empty(it.copies()));
  const actors::run_copy led(it.copies(), it.node.path(), it.told);
  runtime::write_rendezvous(led.folder(), {.incarnation = 2, .address = "127.0.0.1", .port = 1});
  CHECK(led.remove_unless_used());  // its process was killed, and another one of that host goes on
  CHECK(std::filesystem::exists(led.folder().path()));
  it.told.record = "no record";
  CHECK_THROWS_AS(actors::run_copy(it.copies(), it.node.path(), it.told), runtime::input_error);
}
