#include "runtime/data/sentence_splitter.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <unicode/brkiter.h>
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>
#include <unicode/utf8.h>
#include <unicode/uversion.h>
#include <utility>

namespace troupe::runtime {
namespace {

/// Megatron's names (of NLTK's models), and the codes of ICU.
constexpr std::pair<const char*, const char*> languages[] = {{"english", "en"},
                                                             {"czech", "cs"},
                                                             {"danish", "da"},
                                                             {"dutch", "nl"},
                                                             {"estonian", "et"},
                                                             {"finnish", "fi"},
                                                             {"french", "fr"},
                                                             {"german", "de"},
                                                             {"greek", "el"},
                                                             {"italian", "it"},
                                                             {"malayalam", "ml"},
                                                             {"norwegian", "nb"},
                                                             {"polish", "pl"},
                                                             {"portuguese", "pt"},
                                                             {"russian", "ru"},
                                                             {"slovene", "sl"},
                                                             {"spanish", "es"},
                                                             {"swedish", "sv"},
                                                             {"turkish", "tr"}};

std::string code_of(const std::string& language) {
  for (const auto& [name, code] : languages)
    if (language == name || language == code)
      return code;
  std::string known;
  for (const auto& [name, code] : languages)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  throw input_error(
      "cannot split sentences of the language '{}': the known languages are {}", language, known);
}

constexpr const char* white = " \t\r\n\f\v";

std::string_view without_white(std::string_view text) {
  const auto first = text.find_first_not_of(white);
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

/// True if the text ends with a mark that ends a sentence; quotes and brackets may follow it.
bool ends_a_sentence(std::string_view text) {
  auto at = std::int32_t(text.size());
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  while (at > 0) {
    UChar32 c = 0;
    U8_PREV(bytes, 0, at, c);
    const auto kind = c < 0 ? U_SB_OTHER : u_getIntPropertyValue(c, UCHAR_SENTENCE_BREAK);
    if (kind == U_SB_STERM || kind == U_SB_ATERM)
      return true;
    if (kind != U_SB_CLOSE)
      return false;
  }
  return false;
}

/// True if the part ends at a line end and its sentence continues on the next line.
bool goes_on(std::string_view part, std::string_view rest) {
  const auto last = part.find_last_not_of(white);
  if (last == std::string_view::npos)
    return false;
  const auto after = part.substr(last + 1);
  const auto next = rest.substr(0, std::min(rest.find_first_not_of(white), rest.size()));
  return std::count(after.begin(), after.end(), '\n') + std::count(next.begin(), next.end(), '\n')
             == 1
         && !ends_a_sentence(without_white(part));
}

}  // namespace

struct sentence_splitter::state {
  std::unique_ptr<icu::BreakIterator> breaks;
  UText text = UTEXT_INITIALIZER;
};

sentence_splitter::sentence_splitter(const std::string& language)
    : state_(std::make_unique<state>()) {
  UErrorCode status = U_ZERO_ERROR;
  // Only for English: the lists of other languages wrongly join sentences (ICU 72).
  const auto code = code_of(language);
  const icu::Locale locale((code == "en" ? "en@ss=standard" : code).c_str());
  state_->breaks.reset(icu::BreakIterator::createSentenceInstance(locale, status));
  if (U_FAILURE(status))
    throw io_error("cannot split sentences: ICU says {}; install its data (libicu72)",
                   u_errorName(status));
}

sentence_splitter::~sentence_splitter() {
  state_->breaks.reset();
  utext_close(&state_->text);
}

void sentence_splitter::split(std::string_view text,
                              bool keep_newlines,
                              std::vector<std::string_view>& out) {
  if (text.size() > std::size_t(INT32_MAX))
    throw input_error("its {} bytes are too many to split into sentences: give smaller documents",
                      text.size());
  UErrorCode status = U_ZERO_ERROR;
  utext_openUTF8(&state_->text, text.data(), std::int64_t(text.size()), &status);
  state_->breaks->setText(&state_->text, status);
  if (U_FAILURE(status))
    throw input_error("it cannot be split into sentences: ICU says {}", u_errorName(status));
  std::size_t begin = 0;
  state_->breaks->first();
  for (auto at = state_->breaks->next(); at != icu::BreakIterator::DONE;
       at = state_->breaks->next()) {
    const auto end = std::size_t(at);
    auto part = text.substr(begin, end - begin);
    if (end < text.size() && goes_on(part, text.substr(end)))
      continue;
    begin = end;
    const auto words = without_white(part);
    if (words.empty()) {
      // Blank lines belong to the sentence before them.
      if (keep_newlines && !out.empty() && out.back().data() + out.back().size() == part.data())
        out.back() = {out.back().data(), out.back().size() + part.size()};
      continue;
    }
    if (keep_newlines)
      part.remove_prefix(std::size_t(words.data() - part.data()));
    out.push_back(keep_newlines ? part : words);
  }
}

std::string sentence_splitter::version() {
  UVersionInfo version = {};
  char text[U_MAX_VERSION_STRING_LENGTH] = {};
  u_getVersion(version);
  u_versionToString(version, text);
  return fmt::format("ICU {}", text);
}

}  // namespace troupe::runtime
