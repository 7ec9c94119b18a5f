// Fuzzes Megatron-LM's layout string for pipeline stages.

#include "runtime/model/stages.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

const unit_letters letters = {{'E', 1}, {'t', 8, true}, {'L', 1}};
constexpr int stages = 4;

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"Et*2|(tt|)*2ttL", "E|tttt|tttt|L", "E,t,t|tt|tt|t,t,L", "E||t*8|L"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"*1000000000", "*99999999999999999999", "(((", ")*2", "|", "*0", "(t*1000)*1000", ","};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto found = stages_from_text(fuzz::text_of(data, size), letters, stages);
    fuzz::require(stages_from_text(to_text(found, letters), letters, stages) == found,
                  "a layout survives a round trip");
  });
  return 0;
}
