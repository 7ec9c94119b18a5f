#include "runtime/data/task_files.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::tests::scratch_folder;

namespace {

std::vector<task_sample> samples_in(task_kind kind,
                                    const std::string& text,
                                    std::vector<std::string> labels = {}) {
  const scratch_folder folder;
  const auto file = folder / "file";
  write_text(file, text);
  return read_task({.kind = kind, .labels = std::move(labels)}, {file.string()});
}

const std::string mnli_header
    = "index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsentence1\t"
      "sentence2\tlabel1\tgold_label\n";
const std::string mnli_before = "7\tp\ti\tg\tb\tb\tp\tp\t";
const std::string qqp_header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n";

}  // namespace

TEST_CASE("a cleaned text has single spaces and no space before a lone full stop", "[task]") {
  CHECK(clean_text("a \t\n b") == "a b");
  CHECK(clean_text("It ended . Then\u00a0\u2009more . Yes .") == "It ended. Then more. Yes .");
  CHECK(clean_text("a . . b") == "a.. b");  // as three replacements of " . "
  CHECK(clean_text("") == "");
}

TEST_CASE("MNLI has its sentences in columns 8 and 9 and its label in the last one", "[task]") {
  const auto found
      = samples_in(task_kind::mnli,
                   mnli_header + mnli_before + "One  day .\tA day\tx\tneutral\r\n" + mnli_before
                       + "Two\tNone\tx\tcontradiction\n" + mnli_before + "Two\tAll\tentailment\n");
  REQUIRE(found.size() == 3);
  CHECK(found[0].texts.at(0).first == "One day .");
  CHECK(*found[0].texts.at(0).second == "A day");
  CHECK(found[0].label == 2);
  CHECK(found[1].label == 0);
  CHECK(found[2].label == 1);
}

TEST_CASE("the test file of MNLI has 10 columns and the class contradiction", "[task]") {
  const std::string header = "index\ta\tb\tc\td\te\tf\tg\tsentence1\tsentence2\n";
  const auto found = samples_in(task_kind::mnli, header + mnli_before + "One\tneutral\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].label == 0);
}

TEST_CASE("QQP skips lines without 6 columns and with an empty question", "[task]") {
  const auto found = samples_in(task_kind::qqp,
                                qqp_header + "1\t2\t3\tWhy?\tHow?\t1\n" + "2\t2\t3\tWhy?\n"
                                    + "3\t2\t3\t \tHow?\t0\n" + "4\t2\t3\tWho?\tWhen?\t0\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0].label == 1);
  CHECK(found[1].texts.at(0).first == "Who?");
  CHECK(*found[1].texts.at(0).second == "When?");
}

TEST_CASE("the test file of QQP has 3 columns and class 0", "[task]") {
  const auto found = samples_in(task_kind::qqp, "id\tquestion1\tquestion2\n1\tWhy?\tHow?\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].label == 0);
  CHECK(found[0].texts.at(0).first == "Why?");
}

TEST_CASE("a question of RACE has four texts, with the answer at its gap or behind it", "[task]") {
  const scratch_folder folder;
  write_text(folder / "b.txt",
             R"({"article": "Tom  ran .\nHe fell.", "questions": ["Tom _ .", "Who ran?"],)"
             R"( "options": [["ran", "sat", "ate", "slept"], ["Tom", "Ann", "Bob", "Eve"]],)"
             R"( "answers": ["A", "D"]})");
  write_text(folder / "a.txt",
             R"({"article": "x", "questions": ["q"], "options": [["1", "2", "3", "4"]],)"
             R"( "answers": ["C"]})");
  write_text(folder / "other.json", "no sample");
  const task_settings task{.kind = task_kind::race};
  const auto files = task_files(task, {folder.path().string()});
  REQUIRE(files.size() == 2);
  const auto found = read_task(task, files);
  REQUIRE(found.size() == 3);
  CHECK(found[0].label == 2);  // a.txt precedes b.txt
  REQUIRE(found[1].texts.size() == 4);
  CHECK(found[1].texts[0].first == "Tom ran .");
  CHECK(*found[1].texts[0].second == "Tom ran. He fell.");
  CHECK(found[2].texts[3].first == "Who ran? Eve");
  CHECK(found[2].label == 3);
}

TEST_CASE("a CSV file has quoted fields, and columns by name in any order", "[task]") {
  const auto found = samples_in(task_kind::csv,
                                "text_b,number,label,text_a\r\n"
                                "\"one, two\",1,no,\"He said \"\"yes\"\"\nand left\"\r\n"
                                "three,2,yes,four\r\n",
                                {"yes", "no"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].texts.at(0).first == "He said \"yes\" and left");
  CHECK(*found[0].texts.at(0).second == "one, two");
  CHECK(found[0].label == 1);
  CHECK(found[1].label == 0);
  const auto single = samples_in(task_kind::csv, "label,text\nyes,a\n\nno,b\n", {"yes", "no"});
  REQUIRE(single.size() == 2);
  CHECK(single[0].texts.at(0).second == nullptr);
}

TEST_CASE("quotes of GLUE's files are part of their texts, and a byte order mark is not",
          "[task]") {
  const auto found = samples_in(task_kind::qqp,
                                "\ufeff" + qqp_header + "1\t2\t3\t\"Why\tHow \"\"so\"\"?\t1\r\n"
                                    + "2\t2\t3\tWho\tWhen\t0\r3\t2\t3\tA\tB\t1");
  REQUIRE(found.size() == 3);
  CHECK(found[0].texts.at(0).first == "\"Why");
  CHECK(*found[0].texts.at(0).second == "How \"\"so\"\"?");
  CHECK(found[1].label == 0);
  CHECK(found[2].texts.at(0).first == "A");
  const auto csv = samples_in(task_kind::csv, "\ufefflabel,text\r\nyes,a\r\n", {"yes", "no"});
  REQUIRE(csv.size() == 1);
  CHECK(csv[0].texts.at(0).first == "a");
}

TEST_CASE("a file of RACE has a text on each line, and a question any number of gaps", "[task]") {
  const auto line = [](const std::string& article, const std::string& question) {
    return R"({"article": ")" + article + R"(", "questions": [")" + question
           + R"("], "options": [["1", "2", "3", "4_4"]], "answers": ["B"]})" + "\r\n";
  };
  const auto found
      = samples_in(task_kind::race, "\ufeff" + line("one", "_ and _?") + line("two", "what\\n?"));
  REQUIRE(found.size() == 2);
  CHECK(found[0].texts.at(1).first == "2 and 2?");
  CHECK(found[0].texts.at(3).first == "4_4 and 4_4?");
  CHECK(*found[1].texts.at(0).second == "two");
  CHECK(found[1].texts.at(0).first == "what ? 1");
}

TEST_CASE("hidden files in a folder of RACE are ignored", "[task]") {
  const scratch_folder folder;
  write_text(folder / "1.txt", "{}");
  write_text(folder / "._1.txt", "\xff");  // as some archives have them
  const auto files = task_files({.kind = task_kind::race}, {folder.path().string()});
  CHECK(files == std::vector<std::string>{(folder / "1.txt").string()});
}

TEST_CASE("a file that is not of its task is refused with its line", "[task]") {
  struct wrong_file {
    task_kind kind;
    std::string text, complaint;
  };
  const auto x = GENERATE_COPY(
      wrong_file{task_kind::mnli, "a\tb\n", "line 1 has 2 columns, and MNLI has at least 10"},
      wrong_file{task_kind::mnli,
                 mnli_header + mnli_before + "a\tb\tx\tmaybe\n",
                 "line 2 has the label 'maybe'"},
      wrong_file{task_kind::mnli,
                 mnli_header + "x\tp\ti\tg\tb\tb\tp\tp\ta\tb\tx\tneutral\n",
                 "line 2 begins with 'x' instead of the number"},
      wrong_file{task_kind::mnli,
                 mnli_header + mnli_before + "a\tb\tx\t-\n",
                 "line 2 has the label '-': MNLI's are contradiction, entailment, neutral"},
      wrong_file{task_kind::mnli,
                 mnli_header + mnli_before + "a\n",
                 "line 2 has 9 columns, and MNLI has at least 10"},
      wrong_file{task_kind::mnli,
                 mnli_header + mnli_before + " \tb\tx\tneutral\n",
                 "line 2 has an empty sentence"},
      wrong_file{task_kind::qqp, qqp_header + "x\t2\t3\ta\tb\t1\n", "line 2 begins with 'x'"},
      wrong_file{task_kind::qqp,
                 "id\tquestion1\tquestion2\n1\tWhy?\n",
                 "line 2 has 2 columns instead of 3"},
      wrong_file{task_kind::race,
                 R"({"article": "x", "questions": ["q"], "options": [["1", "2", "3", "4"]],)"
                 R"( "answers": ["E"]})",
                 "line 1 has the answer 'E'"},
      wrong_file{task_kind::mnli, "", "has no samples of the task mnli"},
      wrong_file{task_kind::csv, "", "line 1 is missing"},
      wrong_file{task_kind::csv, "label,text\n", "has no samples of the task csv"},
      wrong_file{task_kind::csv, "label,text_b\nyes,a\n", "line 1 lacks the column"},
      wrong_file{task_kind::csv,
                 "label,text\nyes,\"a\nb\"\nmaybe,\"c\nd\"\n",
                 "line 4 has the label 'maybe'"},
      wrong_file{task_kind::mnli, mnli_header, "has no samples of the task mnli"},
      wrong_file{task_kind::qqp, "a\tb\n", "has 2 columns, and QQP has 6"},
      wrong_file{task_kind::qqp, qqp_header + "1\t2\t3\ta\tb\t2\n", "line 2 has the label '2'"},
      wrong_file{task_kind::race, "{}", "article"},
      wrong_file{task_kind::race, "not JSON", "line 1"},
      wrong_file{task_kind::race,
                 R"({"article": "x", "questions": ["q"], "options": [["1"]], "answers": ["A"]})",
                 "a question has four"},
      wrong_file{task_kind::race,
                 R"({"article": "x", "questions": ["q"], "options": [], "answers": ["E"]})",
                 "1 questions, 0 lists of options and 1 answers"},
      wrong_file{task_kind::csv, "a,b\n", "line 1 lacks the column"},
      wrong_file{task_kind::csv, "label,text\nyes,a,b\n", "line 2 has 3 fields"},
      wrong_file{task_kind::csv, "label,text\nmaybe,a\n", "line 2 has the label 'maybe'"},
      wrong_file{task_kind::csv, "label,text\nyes,\"a\n", "line 2 begins a quoted field"},
      wrong_file{task_kind::csv, "label,text\nyes,\xff\n", "byte 15 is not UTF-8"});
  CHECK_THROWS_MATCHES(samples_in(x.kind, x.text, {"yes", "no"}),
                       input_error,
                       MessageMatches(ContainsSubstring(x.complaint)));
}

TEST_CASE("a folder of RACE without texts is refused", "[task]") {
  const scratch_folder folder;
  CHECK_THROWS_MATCHES(task_files({.kind = task_kind::race}, {folder.path().string()}),
                       input_error,
                       MessageMatches(ContainsSubstring("has no *.txt")));
}
