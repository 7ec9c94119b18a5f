#include "runtime/tokenizer/null_tokenizer.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using ids = std::vector<std::int32_t>;

TEST_CASE("a NullTokenizer reads decimal ids between white space", "[tokenizer]") {
  const null_tokenizer t(100);
  CHECK(t.encode(" 17\t4\n\n99 0") == ids{17, 4, 99, 0});
  CHECK(t.encode("").empty());
  CHECK(t.encode(" \n").empty());
  CHECK(t.decode(ids{17, 4, 99}) == "17 4 99");
  CHECK(t.vocabulary_size() == 100);
  CHECK(t.end_of_document() == 99);
}

TEST_CASE("a NullTokenizer refuses texts that are not ids of its vocabulary", "[tokenizer]") {
  const null_tokenizer t(100);
  CHECK_THROWS_AS(t.encode("1 100"), input_error);
  CHECK_THROWS_WITH(t.encode("1 100"), ContainsSubstring("id 100 at byte 2"));
  CHECK_THROWS_WITH(t.encode("-1"), ContainsSubstring("ends at 99"));
  CHECK_THROWS_WITH(t.encode("99999999999999"), ContainsSubstring("ends at 99"));
  CHECK_THROWS_WITH(t.encode("3 four"), ContainsSubstring("'four' at byte 2"));
  CHECK_THROWS_WITH(t.encode("3x"), ContainsSubstring("decimal ids"));
  CHECK_THROWS_WITH(t.decode(ids{100}), ContainsSubstring("id 100"));
  CHECK_THROWS_AS(null_tokenizer(0), input_error);
}

TEST_CASE("a tokenizer is made from its configuration, or the missing part is named",
          "[tokenizer]") {
  const auto made = make_tokenizer({.type = "NullTokenizer", .vocabulary_size = 7});
  CHECK(made->kind() == "NullTokenizer");
  CHECK(made->vocabulary_size() == 7);
  CHECK(made->fingerprint() == null_tokenizer(7).fingerprint());
  CHECK_FALSE(made->fingerprint() == null_tokenizer(8).fingerprint());
  CHECK_THROWS_WITH(make_tokenizer({.type = "WordTokenizer"}), ContainsSubstring("WordTokenizer"));
  CHECK_THROWS_WITH(make_tokenizer({.type = "GPT2BPETokenizer"}),
                    ContainsSubstring("its vocabulary, a vocab.json, is not given"));
  CHECK_THROWS_WITH(make_tokenizer({.type = "GPT2BPETokenizer", .vocab_file = "vocab.json"}),
                    ContainsSubstring("its merges, a merges.txt, is not given"));
}
