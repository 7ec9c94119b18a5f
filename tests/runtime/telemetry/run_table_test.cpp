#include "runtime/telemetry/run_table.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
using names = std::vector<std::string>;

TEST_CASE("both formats of a log give the same numbers", "[log]") {
  const scratch_folder folder;
  write_text(folder / "a",
             "{\"iteration\":1,\"lm_loss\":4.5,\"state_digest\":\"12\"}\n"
             "{\"iteration\":2,\"lm_loss\":null}\n"
             "{\"iteration\":2,\"validation_loss\":3}\n"
             "{\"iteration\":3,\"lm_l");
  write_text(folder / "b",
             "iteration,lm_loss,validation_loss,state_digest\r\n1,4.5,,12\r\n2,,3,13\r\n3,1");
  for (const auto* name : {"a", "b"}) {
    const run_table x(folder / name);
    CAPTURE(name);
    CHECK(x.fields() == names{"lm_loss", "validation_loss"});
    CHECK(x.at("lm_loss", 1) == 4.5);
    CHECK_FALSE(x.at("lm_loss", 2));
    CHECK_FALSE(x.at("speed", 1));
    CHECK(x.by_iteration("validation_loss").size() == 1);
    CHECK(x.by_iteration("speed").empty());
    CHECK(x.last_iteration() == 2);
    CHECK(x.skipped().empty());
  }
}

TEST_CASE("events are listed apart from the numbers of steps", "[log]") {
  const scratch_folder folder;
  write_text(
      folder / "a",
      "{\"iteration\":1,\"lm_loss\":4.5}\n"
      "{\"iteration\":1,\"event\":\"restart\",\"why\":\"process:1: killed\",\"seconds\":0.5}\n"
      "{\"iteration\":2,\"event\":\"straggler\",\"why\":3}\n");
  const run_table x(folder / "a");
  CHECK(x.fields() == names{"lm_loss"});
  CHECK(x.skipped().empty());
  REQUIRE(x.events().size() == 2);
  CHECK(x.events()[0].kind == "restart");
  CHECK(x.events()[0].why == "process:1: killed");
  CHECK(x.events()[0].seconds == 0.5);
  CHECK(x.events()[1].iteration == 2);
  CHECK(x.events()[1].why.empty());
}

TEST_CASE("invalid lines are counted, and a file without a record is refused", "[log]") {
  const scratch_folder folder;
  write_text(folder / "some", "{\"iteration\":1,\"lm_loss\":1}\n[]\n{\"iteration\":-1}\n");
  CHECK(run_table(folder / "some").skipped() == std::vector<std::size_t>{2, 3});
  write_text(folder / "rows", "lm_loss,iteration\n1,2\n1\nx,y\n");
  CHECK(run_table(folder / "rows").skipped() == std::vector<std::size_t>{3, 4});
  write_text(folder / "rows",
             "iteration,lm_loss\n1,2\n1e300,2\nnan,2\n-1,2\n1.5,2\n18446744073709551616,2\n");
  CHECK(run_table(folder / "rows").skipped() == std::vector<std::size_t>{3, 4, 5, 6, 7});
  CHECK(run_table(folder / "rows").last_iteration() == 1);
  write_text(folder / "numbers", "iteration,lm_loss,grad_norm\n1,2,inf\n2,nan,1\n");
  CHECK(run_table(folder / "numbers").skipped().empty());
  CHECK(run_table(folder / "numbers").by_iteration("lm_loss").size() == 1);
  CHECK(run_table(folder / "numbers").by_iteration("grad_norm").size() == 1);
  write_text(folder / "none", "Chapter 1\n");
  CHECK_THROWS_WITH(run_table(folder / "none"), ContainsSubstring("line 1 is not a JSON object"));
  write_text(folder / "empty", "");
  CHECK_THROWS_WITH(run_table(folder / "empty"), ContainsSubstring("no steps yet"));
  CHECK_THROWS_AS(run_table(folder / "gone"), input_error);
}

TEST_CASE("the log of a folder is the run's default one, or the only one", "[log]") {
  const scratch_folder folder;
  CHECK(find_log(folder / "gone") == folder / "gone");
  CHECK_THROWS_WITH(find_log(folder.path()), ContainsSubstring("no log.jsonl, and no other"));
  write_text(folder / "x.csv", "");
  CHECK(find_log(folder.path()) == folder / "x.csv");
  write_text(folder / "y.jsonl", "");
  CHECK_THROWS_WITH(find_log(folder.path()), ContainsSubstring("several files"));
  write_text(folder / "log.csv", "");
  CHECK(find_log(folder.path()) == folder / "log.csv");
  write_text(folder / "log.jsonl", "");
  CHECK(find_log(folder.path()) == folder / "log.jsonl");
}

TEST_CASE("runs get the shortest names that tell them apart", "[log]") {
  CHECK(names_of_runs({"/r/a.jsonl", "/r/b.csv"}) == names{"a", "b"});
  CHECK(names_of_runs({"/r/one/log.jsonl", "/r/two/log.jsonl"}) == names{"one", "two"});
  CHECK(names_of_runs({"/r/one/x.csv", "/r/two/x.csv"}) == names{"one/x", "two/x"});
  CHECK(names_of_runs({"/r/a.csv", "/r/a.csv"}).size() == 2);
}
