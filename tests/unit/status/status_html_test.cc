#include "status/status_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/unit/status/some_status.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Html(const Status& status) { return StatusPage(status).body; }

// From the model's heading to the end of its section.
std::string SectionOf(const std::string& html, const std::string& heading) {
  const size_t start = html.find("<h2>" + heading);
  EXPECT_NE(start, std::string::npos) << heading;
  return html.substr(start, html.find("</section>", start) - start);
}

size_t CountOf(const std::string& html, const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = html.find(text, at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

TEST(StatusHtmlTest, AnEmptyServerSaysThatItIs) {
  const std::string html = Html(Status());
  EXPECT_THAT(html, StartsWith("<!doctype html>"));
  EXPECT_THAT(html, HasSubstr("not ready"));
  EXPECT_THAT(html, HasSubstr("No model is there"));
  EXPECT_THAT(html, HasSubstr("None since the start"));
  EXPECT_THAT(html, HasSubstr("can't be written"));
}

TEST(StatusHtmlTest, AServingVersion) {
  const std::string html = Html(SomeStatus());
  EXPECT_THAT(html, HasSubstr("up 1 h 15 min"));
  EXPECT_THAT(html, HasSubstr("of the last 1 min;"));
  EXPECT_THAT(html, HasSubstr("2023-11-14 22:13:20 UTC"));
  const std::string section = SectionOf(html, "minilm:1");
  for (const char* text :
       {">serving<", "20.5", "3.1 ms", "250 ms", "12,345", "1.87 ×", "6.0e-06",
        "12,000", "13.6 s", "20.4 s", "<code>aaaaaaaaaaaa</code>",
        "On cuda:0, cuda:1.", "profit: 0.93 x eager",
        "1 of 2 buckets stays on eager"}) {
    EXPECT_THAT(section, HasSubstr(text));
  }
  EXPECT_THAT(section, Not(HasSubstr("settled")));
}

TEST(StatusHtmlTest, AWarmingVersionSaysHowLongItTakes) {
  const std::string section = SectionOf(Html(SomeStatus()), "resnet:2");
  EXPECT_THAT(section, HasSubstr(">warming<"));
  EXPECT_THAT(section,
              HasSubstr("1 of 3 buckets settled, about <b>1 min 20 s"));
  EXPECT_THAT(section, HasSubstr("compiling: build, 12 s"));
  EXPECT_THAT(section, HasSubstr(">pending<"));
  EXPECT_THAT(section, Not(HasSubstr("On cpu")));
  // Nothing can be asked of it yet.
  EXPECT_THAT(section, Not(HasSubstr("p99")));

  Status status = SomeStatus();
  status.models[1].state = VersionState::kServing;  // ready_when: eager
  EXPECT_THAT(SectionOf(Html(status), "resnet:2"),
              HasSubstr("<dt>p99</dt><dd>–</dd>"));
  status.models[1].warmup.left.reset();
  EXPECT_THAT(SectionOf(Html(status), "resnet:2"), Not(HasSubstr("about")));
}

TEST(StatusHtmlTest, AFailedVersionSaysWhy) {
  const std::string section = SectionOf(Html(SomeStatus()), "broken:1");
  EXPECT_THAT(section, HasSubstr(">failed<"));
  EXPECT_THAT(section, HasSubstr("<p class=\"alarm\">model.pt2: expected a ZIP "
                                 "archive, got 7 bytes</p>"));
  EXPECT_THAT(section, Not(HasSubstr("<table>")));
}

TEST(StatusHtmlTest, CacheAndRefusals) {
  const std::string html = Html(SomeStatus());
  const std::string cache = SectionOf(html, "Kernel cache");
  EXPECT_THAT(cache, HasSubstr("<dt>entries</dt><dd>8</dd>"));
  EXPECT_THAT(cache, HasSubstr("14 MiB"));
  EXPECT_THAT(cache, HasSubstr("1 checksum"));
  EXPECT_THAT(cache, HasSubstr("1 min 39 s"));
  EXPECT_THAT(cache, Not(HasSubstr("can't be written")));
  const std::string refusals = SectionOf(html, "Recent refusals");
  EXPECT_LT(refusals.find("minilm:1 batch=8"),
            refusals.find("cache entry 621b6bbffda9"));
  EXPECT_THAT(refusals, HasSubstr("<b>checksum</b> model.so: other bytes"));
}

TEST(StatusHtmlTest, WhatComesFromOutsideIsText) {
  const std::string hostile = "<script>alert('x')</script>&\"\xff";
  Status status = SomeStatus();
  status.server.version = status.server.torch = status.server.march = hostile;
  for (ModelStatus& model : status.models) {
    model.model = model.reason = hostile;
    for (BucketFigures& bucket : model.buckets) {
      bucket.status.bucket = bucket.status.phase = hostile;
      bucket.status.slot.key = bucket.status.slot.detail = hostile;
    }
  }
  status.cache.rejections = {{hostile, 1}};
  for (RecentRefusals::Refusal& refusal : status.refusals) {
    refusal.of = refusal.label = refusal.reason = hostile;
  }
  const std::string html = Html(status);
  EXPECT_EQ(CountOf(html, "<script"), 1u);  // the page's own
  EXPECT_THAT(html, Not(HasSubstr("alert('x')")));
  EXPECT_THAT(html, Not(HasSubstr("\xff")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"
                              "&amp;&quot;?"));
}

TEST(StatusHtmlTest, NoNumberIsNan) {
  Status status = SomeStatus();
  status.models[0].recent = {0, std::nullopt, std::nullopt};
  status.server.window = absl::ZeroDuration();
  Verdict& verdict = status.models[0].buckets[0].status.slot.verdict;
  verdict = Verdict();
  status.models[0].buckets[0].compile_seconds = 0;
  for (const Status& shown : {Status(), status}) {
    const std::string html = Html(shown);
    const std::string main = html.substr(html.find("<main>"));
    EXPECT_THAT(main.substr(0, main.find("</main>")),
                Not(testing::ContainsRegex("[^a-z](nan|inf)[^a-z]")));
  }
}

TEST(StatusHtmlTest, NothingButItsOwnScriptMayRun) {
  const Page page = StatusPage(SomeStatus());
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.security_policy, StartsWith("default-src 'none'; "));
  EXPECT_THAT(page.security_policy, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(page.security_policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page.body, Not(HasSubstr("http://")));
  EXPECT_THAT(page.body, Not(HasSubstr("https://")));
  EXPECT_THAT(page.body, Not(HasSubstr(" style=")));
  EXPECT_THAT(page.body, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace stoker
