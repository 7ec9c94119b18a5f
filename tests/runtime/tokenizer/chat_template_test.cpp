// Prompts, compared with transformers (tests/golden/template/make.py), and files of a folder.

#include "runtime/tokenizer/chat_template.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

using namespace troupe::runtime;
using ordered = nlohmann::ordered_json;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const ordered& golden_prompts() {
  static const auto loaded = ordered::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/template/golden.json"));
  return loaded;
}

const ordered special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

chat_template golden_template(const std::string& name) {
  return {{golden_prompts().at("templates").at(name).get<std::string>(), "the template " + name},
          special_tokens};
}

chat_request golden_request(const ordered& messages, ordered settings) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  chat_request out;
  out.messages = messages;
  out.now = golden_prompts().at("now").get<std::time_t>();
  out.tools = settings.value("tools", ordered());
  out.add_generation_prompt = settings.value("add_generation_prompt", false);
  out.continue_field = settings.value("continue_final_message", false) ? "content" : "";
  for (const auto* own : {"tools", "add_generation_prompt", "continue_final_message"})
    settings.erase(own);
  out.variables = settings;
  return out;
}

void put(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

chat_request hello() {
  chat_request out;
  out.messages = {{{"role", "user"}, {"content", "Hello"}}};
  return out;
}

std::string prompt_in(const std::filesystem::path& folder,
                      const std::string& name = "",
                      bool tools = false) {
  auto request = hello();
  return choose_chat_template(chat_templates_in(folder), folder, name, tools)
      .render(std::move(request))
      .text;
}

}  // namespace

TEST_CASE("conversations become the same prompts as in transformers", "[tokenizer][golden]") {
  const auto& settings = golden_prompts().at("settings");
  std::size_t prompts = 0;
  for (const auto& [name, by_conversation] : golden_prompts().at("prompts").items()) {
    const auto with = golden_template(name);
    for (const auto& [which, expected] : by_conversation.items())
      for (std::size_t i = 0; i < expected.size(); ++i, ++prompts) {
        INFO(name << " " << which << " " << settings[i].dump() << expected[i].dump());
        auto request = golden_request(golden_prompts().at("conversations").at(which), settings[i]);
        if (expected[i].contains("text"))
          CHECK(with.render(std::move(request)).text == expected[i].at("text").get<std::string>());
        else
          CHECK_THROWS_AS(with.render(std::move(request)), input_error);
      }
  }
  CHECK(prompts > 200);
}

TEST_CASE("the assistant's text is located by bytes", "[tokenizer][golden]") {
  std::size_t ranges = 0;
  for (const auto& [name, by_conversation] : golden_prompts().at("generations").items())
    for (const auto& [which, expected] : by_conversation.items()) {
      const auto made = golden_template(name).render(
          golden_request(golden_prompts().at("conversations").at(which), ordered::object()));
      auto found = ordered::array();
      for (const auto& range : made.generations)
        found.push_back({range.begin, range.end});
      CHECK(found == expected);
      ranges += expected.size();
    }
  CHECK(ranges >= 3);
}

TEST_CASE("a folder's template is found in all places of the hub's format", "[tokenizer]") {
  const troupe::tests::scratch_folder scratch;
  const auto folder = scratch.path() / "model";
  put(folder / "tokenizer_config.json",
      R"({"bos_token": {"content": "<b>"}, "eos_token": null,
          "chat_template": "config {{ bos_token }}{{ eos_token is defined }}"})");
  CHECK(prompt_in(folder) == "config <b>False");
  put(folder / "special_tokens_map.json", R"({"bos_token": "<m>"})");
  CHECK(prompt_in(folder) == "config <m>False");
  put(folder / "tokenizer_config.json",
      R"({"added_tokens_decoder": {}, "bos_token": "<b>", "chat_template": [
          {"name": "default", "template": "d {{ bos_token }}"},
          {"name": "tool_use", "template": "t"}]})");
  CHECK(prompt_in(folder) == "d <b>");
  CHECK(prompt_in(folder, "", true) == "t");
  CHECK(prompt_in(folder, "default", true) == "d <b>");
  put(folder / "chat_template.jinja", "file\n");
  put(folder / "additional_chat_templates" / "rag.jinja", "rag");
  CHECK(prompt_in(folder) == "file");
  CHECK(prompt_in(folder, "rag") == "rag");
  CHECK_THROWS_MATCHES(prompt_in(folder, "tool_use"),
                       input_error,
                       MessageMatches(ContainsSubstring("only default, rag")));
}

TEST_CASE("invalid folders and conversations are refused", "[tokenizer]") {
  const troupe::tests::scratch_folder scratch;
  CHECK_THROWS_MATCHES(prompt_in(scratch.path()),
                       input_error,
                       MessageMatches(ContainsSubstring("has no chat template")));
  put(scratch.path() / "tokenizer_config.json", R"({"chat_template": 5})");
  CHECK_THROWS_AS(prompt_in(scratch.path()), input_error);
  put(scratch.path() / "tokenizer_config.json", "{");
  CHECK_THROWS_AS(prompt_in(scratch.path()), input_error);

  const chat_template with({"{{ messages[0].content }}", "t"}, special_tokens);
  const auto refused = [&](auto change, const char* why) {
    auto request = hello();
    change(request);
    CHECK_THROWS_MATCHES(
        with.render(std::move(request)), input_error, MessageMatches(ContainsSubstring(why)));
  };
  refused([](auto& x) { x.messages = ordered::array(); }, "empty");
  refused([](auto& x) { x.messages = {1}; }, "number 1");
  refused([](auto& x) { x.messages = "text"; }, "list");
  refused([](auto& x) { x.tools = {1}; }, "tools");
  refused([](auto& x) { x.variables = {{"messages", 1}}; }, "'messages'");
  refused([](auto& x) { x.continue_field = "thinking"; }, "has none");
  refused(
      [](auto& x) {
        x.continue_field = "content";
        x.add_generation_prompt = true;
      },
      "leave out one");
  refused(
      [](auto& x) {
        ordered deep;
        for (int i = 0; i < 5000; ++i)
          deep = ordered::array({std::move(deep)});
        x.variables["deep"] = std::move(deep);
      },
      "levels");
}
