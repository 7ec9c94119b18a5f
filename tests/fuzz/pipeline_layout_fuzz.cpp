// Fuzzes Megatron-LM's layout string for pipeline stages.

#include "runtime/model/stages.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr std::int64_t layers = 8;
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
    const auto found = stages_from_text(fuzz::text_of(data, size), layers, stages);
    fuzz::require(stages_from_text(to_text(found, letters_of(layers)), layers, stages) == found,
                  "a layout survives a round trip");
  });
  return 0;
}
