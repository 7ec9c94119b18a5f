// Fuzzes plans as CSV; checks and simulates the plans that can be read.

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/schedule/simulate.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out
      = {"0F0,,(0F1;3B0)OVERLAP_F_B,3F0,3F1,3B1,0B0,0B1\r\n"
         "1F0,2F0,1F1,2F1,1B0,2B0,1B1,2B1\r\n"};
  const schedule_request request = {2, 0, 4};
  for (const auto name : {"1f1b", "zb-h1", "interleaved", "v-min", "dualpipe", "dualpipev"})
    out.push_back(to_csv(generate(name, request)));
  out.push_back(to_csv(lowered(generate("1f1b", request))));
  out.push_back(to_csv(with_recomputation(one_forward_one_backward(2, 2), {{0, 1}, {1, 1, 0}})));
  return out;
}

std::vector<std::string> fuzz::dictionary() {
  return {"(",       ")",           ";",       ",,",      "\n\n",     "\r\n",
          "0F0",     "1I3.2",       "0R3.2",   "0B1",     "0W1",      "a0F0",
          "b1B0",    "(0F1;1B0)",   "1SEND_F", "1RECV_F", "0SEND_B0", "0REDUCE_GRAD",
          "UNSHARD", "OVERLAP_F_B", ".65535",  "1000000"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto x = plan_from_csv(fuzz::text_of(data, size), "input");
    fuzz::require(plan_from_csv(to_csv(x), "input") == x, "a plan survives a round trip");
    if (check_plan(x).is_sound())
      fuzz::require(simulate(x, {}).makespan >= 0, "a sound plan finishes");
  });
  return 0;
}
