// A standing node's copy of a run's folder.

#include "actors/process/run_copy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
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

TEST_CASE("a successor can continue from a copy of a run's folder", "[actors]") {
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

TEST_CASE("a copy of the ledger has all bytes in order, without gaps", "[actors]") {
  copied it;
  actors::run_copy copy(it.copies(), it.node.path(), it.told);
  const auto text = [&] { return runtime::read_text(copy.folder().ledger()); };
  CHECK(copy.keep(messages::keep_ledger{0, "one\n"}) == 4);
  CHECK(copy.keep(messages::keep_ledger{8, "three\n"}) == 4);
  CHECK(text() == "one\n");
  CHECK(copy.keep(messages::keep_ledger{4, "two\n"}) == 8);
  CHECK(text() == "one\ntwo\n");
  // The ledger was written again from there.
  CHECK(copy.keep(messages::keep_ledger{4, "2\n"}) == 6);
  CHECK(text() == "one\n2\n");
}

TEST_CASE("without its own credentials a copy uses the run's secret", "[actors]") {
  copied it;
  it.told.secret = std::string(64, 'a');
  const actors::run_copy copy(it.copies(), it.node.path(), it.told);
  CHECK(runtime::read_credentials(copy.folder().credentials()).secret == it.told.secret);
}

TEST_CASE("a host without access to the arbiter says what to do", "[actors]") {
  copied it;
  const runtime::arbiter by(it.save.path(), it.record.id);
  const actors::run_copy copy(it.copies(), it.node.path(), it.told);
  const auto here = copy.folder().path();
  CHECK_THAT(actors::why_not_here(it.told, here), ContainsSubstring("checkpoints.save"));
  by.open({"first", "host 'first' leads this run"});
  CHECK(actors::why_not_here(it.told, here).empty());
  it.told.directory = (it.save / "nowhere").string();
  CHECK_THAT(actors::why_not_here(it.told, here), ContainsSubstring("nowhere"));
}

TEST_CASE("a winner that cannot lead resigns its own round only", "[actors]") {
  copied it;
  const runtime::arbiter by(it.save.path(), it.record.id);
  by.open({"first", "host 'first' leads this run"});
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

TEST_CASE("a copy with an incomplete ledger is not used", "[actors]") {
  copied it;
  it.told.ledger = 8;
  actors::run_copy copy(it.copies(), it.node.path(), it.told);
  CHECK_FALSE(copy.is_complete());
  it.told.ledger = 800;  // the rest is in transfer
  copy.keep(it.told);
  copy.keep(messages::keep_ledger{0, "one\n"});
  CHECK_FALSE(copy.is_complete());
  copy.keep(messages::keep_ledger{4, "two\n"});
  CHECK(copy.is_complete());
}

TEST_CASE("an unused copy is removed, and one with a leading process is not", "[actors]") {
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
  // Its process was killed, and another process of that host continues.
  CHECK(led.remove_unless_used());
  CHECK(std::filesystem::exists(led.folder().path()));
  it.told.record = "no record";
  CHECK_THROWS_AS(actors::run_copy(it.copies(), it.node.path(), it.told), runtime::input_error);
}
