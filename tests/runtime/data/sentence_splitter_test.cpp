#include "runtime/data/sentence_splitter.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::runtime;

namespace {

using sentences = std::vector<std::string_view>;

sentences split(std::string_view text, bool keep = false, const std::string& in = "english") {
  sentences out;
  sentence_splitter(in).split(text, keep, out);
  return out;
}

}  // namespace

TEST_CASE("a document is split into sentences", "[data]") {
  CHECK(split("It rains. \"Does it?\" He said so. Yes!  No.")
        == sentences{"It rains.", "\"Does it?\"", "He said so.", "Yes!", "No."});
  CHECK(split("Mr. Smith paid 3.50 at 5 p.m. yesterday. He left.")
        == sentences{"Mr. Smith paid 3.50 at 5 p.m. yesterday.", "He left."});
  CHECK(split("他来了。她走了。") == sentences{"他来了。", "她走了。"});
  CHECK(split("").empty());
  CHECK(split(" \n ").empty());
}

TEST_CASE("a line end does not end a sentence, and a blank line does", "[data]") {
  CHECK(split("One goes\non here. Two\r\nas well.")
        == sentences{"One goes\non here.", "Two\r\nas well."});
  CHECK(split("A title\n\nThe text.\nMore.") == sentences{"A title", "The text.", "More."});
}

TEST_CASE("white space is removed, or kept after its sentence", "[data]") {
  const std::string text = "\n One.  Two.\n\n\nThree\n";
  CHECK(split(text) == sentences{"One.", "Two.", "Three"});
  std::string joined;
  for (const auto one : split(text, true))
    joined += one;
  CHECK(joined == text.substr(2));
  CHECK(split(text, true) == sentences{"One.  ", "Two.\n\n\n", "Three\n"});
}

TEST_CASE("languages have Megatron's names", "[data]") {
  const auto text = "Es regnet. Es ist 3.50 m tief. Gut so.";
  CHECK(split(text, false, "german") == sentences{"Es regnet.", "Es ist 3.50 m tief.", "Gut so."});
  CHECK(split("A. B.", false, "en").size() > 0);
  CHECK_THROWS_AS(sentence_splitter("klingon"), input_error);
}
