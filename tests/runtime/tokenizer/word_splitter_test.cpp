// Empty matches split a text. The expected words are those of Hugging Face's tokenizers 0.23.3.

#include "runtime/tokenizer/word_splitter.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

using words = std::vector<std::string>;

words cut(const char* pattern, split_behavior behavior, bool inverted, const char* text) {
  const word_splitter by({split_rule{expression(pattern), behavior, inverted}});
  words out;
  word_splitter::worker(by).split(text, true, [&](auto word) { out.emplace_back(word); });
  return out;
}

}  // namespace

TEST_CASE("an empty match splits a text, with every behavior and inverted", "[tokenizer]") {
  using enum split_behavior;
  constexpr auto thousands = R"((?=(\d{3})+(?!\d)))";
  for (const auto behavior :
       {isolated, removed, merged_with_previous, merged_with_next, contiguous})
    for (const bool inverted : {false, true}) {
      CAPTURE(int(behavior), inverted);
      const bool gone = behavior == removed && inverted;
      CHECK(cut(thousands, behavior, inverted, "1234567")
            == (gone ? words() : words{"1", "234", "567"}));
      CHECK(cut("(?=b)", behavior, inverted, "abbab")
            == (gone ? words() : words{"a", "b", "ba", "b"}));
    }
  const auto each = words{"1", "2", "a", "1", "2"};
  CHECK(cut("a*", isolated, false, "12a12") == each);
  CHECK(cut("a*", isolated, true, "12a12") == each);
  CHECK(cut("a*", contiguous, false, "12a12") == each);
  CHECK(cut("a*", contiguous, true, "12a12") == each);
  CHECK(cut("a*", removed, false, "12a12") == words{"1", "2", "1", "2"});
  CHECK(cut("a*", removed, true, "12a12") == words{"a"});
  CHECK(cut("a*", merged_with_previous, false, "12a12") == words{"1", "2a", "1", "2"});
  CHECK(cut("a*", merged_with_previous, true, "12a12") == words{"1", "2", "a1", "2"});
  CHECK(cut("a*", merged_with_next, false, "12a12") == words{"1", "2", "a1", "2"});
  CHECK(cut("a*", merged_with_next, true, "12a12") == words{"1", "2a", "1", "2"});
}
