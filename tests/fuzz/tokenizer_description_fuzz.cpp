// Fuzzes the description of the tokenizer in a checkpoint.

#include "runtime/tokenizer/description.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const tokenizer_choice choice{.type = "NullTokenizer", .vocabulary_size = 100};
  return {describe(choice, *make_tokenizer(choice))};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"vocab_file\":\"",
          "\"merge_file\":\"",
          "GPT2BPETokenizer",
          "NullTokenizer",
          "/dev/zero",
          "../",
          "\\u0000",
          "4294967396"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto found = described_tokenizer(text, fuzz::folder());
    require_described(*found, text);
    const std::int32_t last[] = {found->vocabulary_size() - 1};
    found->decode(last);
  });
  return 0;
}
