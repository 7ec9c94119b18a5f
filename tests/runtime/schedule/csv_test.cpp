#include "runtime/schedule/csv.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/lower.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

void check_kept(const std::string& text) {
  CAPTURE(text);
  const auto x = plan_from_csv(text, "kept");
  CHECK(to_csv(x) == text);
  CHECK(plan_from_csv(to_csv(x), "kept") == x);
}

void check_refused(const std::string& text, const std::string& why) {
  CAPTURE(text);
  CHECK_THROWS_MATCHES(
      plan_from_csv(text, "mine.csv"), input_error, MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("every kind of cell survives a round trip", "[schedule]") {
  check_kept("0F0,0F1,0B0,0B1\n");
  check_kept("0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1W0,1I1,1W1\n");
  check_kept("0F0,(0F1;3B0),3F0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,1B0,2B0,1B1,2B1\n");
  check_kept("a0F0,(a0F1;b1B0),b1F0\na1F0,b0F0\n");
  check_kept("0F0,0R0.1,0I0.1,0W0.1,0I0,0W0\n");
  check_kept("0F0,0SEND_F0,0RECV_B0,0I0,0W0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}

TEST_CASE("a plan read from CSV has the properties that its actions imply", "[schedule]") {
  const auto x = plan_from_csv("a0F0,b1F0,(a0F1;b1B0)\na1F0,b0F0,b0I0.1,b0R0.0\n", "mine");
  CHECK(x.name == "mine");
  CHECK(x.chunks == 2);
  CHECK(x.copies == 2);
  CHECK(x.microbatches == 4);
  CHECK(x.training);
  CHECK(x.placement == std::vector{0, 1, 1, 0});
  CHECK(x.blocks == std::vector<std::vector<char>>{{1, 0}, {0}});
  REQUIRE(x.ranks.size() == 2);
  CHECK(x.ranks[0][2] == action{action_kind::forward, chunk_id(0), microbatch_id(1), 0, {}, true});
  CHECK(x.ranks[0][3]
        == action{action_kind::backward, chunk_id(1), microbatch_id(0), 0, copy_id(1)});
  CHECK_FALSE(plan_from_csv("0F0,0SEND_F0\n1RECV_F0,1F0", "forward").training);
}

TEST_CASE("torch's pairs, empty cells, spaces and all kinds of line ends are read", "[schedule]") {
  const auto plain = plan_from_csv("0F0,(0F1;3B0),3F0\n\n1F0,2F0\n", "x");
  CHECK(plan_from_csv("0F0,(0F1;3B0)OVERLAP_F_B,3F0\r\n\r\n1F0,2F0\r\n", "x") == plain);
  CHECK(plan_from_csv("0F0,,( 0F1 ; 3B0 ) OVERLAP_F_B, ,\t3F0 ,,\n\n,,1F0,2F0", "x") == plain);
  CHECK(plan_from_csv("\xef\xbb\xbf"
                      "0F0,(0F1;3B0),3F0\n,\n1F0,2F0\n",
                      "x")
        == plain);
  CHECK(plain.ranks.size() == 3);
  CHECK(plain.ranks[1].empty());
  CHECK(plan_from_csv("0F0\n\n", "x").ranks.size() == 2);
}

TEST_CASE("every named schedule survives a round trip", "[schedule]") {
  for (const auto& x : named_schedules())
    for (const int m : {8, 13, 16}) {
      schedule_request request;
      request.ranks = 4;
      request.microbatches = m;
      plan made;
      try {
        made = generate(x.name, request);
      } catch (const input_error&) {
        CHECK(m == 13);
        continue;
      }
      CHECK(plan_from_csv(to_csv(made), made.name) == made);
    }
  const auto rebuilt = with_recomputation(one_forward_one_backward(2, 3), {{0, 1}, {1, 1, 0}});
  CHECK(plan_from_csv(to_csv(rebuilt), "1f1b") == rebuilt);
  CHECK(plan_from_csv(to_csv(forward_only(3, 4)), "forward-only") == forward_only(3, 4));
}

TEST_CASE("the examples in docs/formats/schedule.md equal the output of generators and writers",
          "[schedule]") {
  std::ifstream page(troupe::tests::source_dir() + "/docs/formats/schedule.md");
  std::vector<std::string> found(1);
  for (std::string line; std::getline(page, line);)
    if (const auto text = line.find_first_not_of(' '); text != line.npos && text >= 4)
      found.back() += line.substr(text) + "\n";
    else if (!found.back().empty())
      found.emplace_back();
  schedule_request two{2, 0, 3}, four{2, 0, 4}, alone{1, 0, 2};
  CHECK(found
        == std::vector<std::string>{
            to_csv(generate("1f1b", two)),
            to_csv(generate("zb-h1", two)),
            to_csv(lowered(one_forward_one_backward(2, 2))),
            to_csv(with_recomputation(one_forward_one_backward(2, 1), {{0, 1}, {1, 0}})),
            to_csv(generate("dualpipev", alone)),
            to_csv(generate("dualpipe", four)),
            to_csv(forward_only(3, 2)),
            ""});
  for (const auto& text : found)
    if (!text.empty())
      check_kept(text);
}

TEST_CASE("an error in a CSV file is reported with line and cell", "[schedule]") {
  check_refused("0F0,0F1\n1F0,,1X1\n", "mine.csv, line 2, cell 3, '1X1': there is no action 'X'");
  check_refused("0F0,0f1\n", "there are F, B, I, W, R and, in lowered plans, SEND_F");
  check_refused("0FB1", "there is no action 'FB'");
  check_refused("hello", "the number of its stage is missing");
  check_refused("\033[31mX\xff", "cell 1, '?[31mX?': the number of its stage is missing");
  check_refused("0F1\033[2J", "cell 1, '0F1?[2J': '?[2J' follows where the action ends");
  check_refused("0F0,0B\n", "line 1, cell 2, '0B': the number of its micro-batch is missing");
  check_refused("c0F1", "the number of its stage is missing");
  check_refused("0F-1", "there is no action 'F-'");
  check_refused("0F0.1", "'.1' follows where the action ends");
  check_refused("0B0.", "the number of its block is missing");
  check_refused("0B0.65536", "the number of its block is above 65535");
  check_refused("0REDUCE_GRAD3", "'3' follows");
  check_refused("0F1x", "'x' follows");
  check_refused("0F0 0F1", "' 0F1' follows");
  check_refused("\"0F0\"", "the number of its stage is missing");
  check_refused("0F0,1000001F0", "line 1, cell 2, '1000001F0': the number of its stage is above");
  check_refused("0F99999999999999999999999", "micro-batch is above 1000000");
  check_refused("0UNSHARD,0F0", "UNSHARD belongs to torch's FSDP");
  check_refused("0F0,0RESHARD", "RESHARD belongs to torch's FSDP");
  check_refused("0F0,(0F1;1B0,0F2", "line 1, cell 2, '(0F1;1B0': a pair is not closed");
  check_refused("(0F1;1B0;0F2)", "a pair has two actions");
  check_refused("(0F1)", "a pair has two actions");
  check_refused("(0F1;)", "the number of its stage is missing");
  check_refused("(0F1;1B0)x", "'x' follows a pair");
  check_refused("(0F1;0SEND_F0)", "0SEND_F0 does not");
  check_refused("a0F0,0F1", "line 1, cell 2, '0F1': in a plan of two copies each action names");
  check_refused("0F0\nb1F1", "line 2, cell 1, 'b1F1': in a plan of two copies each action names");
  check_refused("0F0,0B0\n1F0\n0F1", "line 3: 0F1 belongs to stage 0, which is on line 1");
  check_refused("a0F0\nb0F0\na0F1", "line 3: a0F1 belongs to stage 0, which is on line 1");
  check_refused("0F0\n2F0\n", "no action of stage 1, but stages up to 2");
  check_refused("b0F0\n", "no action of stage 0 of copy a");
  check_refused("", "mine.csv has no action");
  check_refused("\n,,\r\n ,\n", "mine.csv has no action");
  check_refused("0F0,0F1000000", "micro-batches up to 1000000 and blocks up to 0, but has 2");
  check_refused(std::string(1000001, '\n'), "more than 1000000 lines");
}
