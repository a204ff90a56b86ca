#include "models/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "models/safetensors_writer.h"
#include "tests/error_message.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// A file of a header with any length before it, and data.
std::string file_of(std::uint64_t length, std::string_view header, std::string_view data) {
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header).append(data);
}

std::string file_of(std::string_view header, std::string_view data) {
  return file_of(header.size(), header, data);
}

// What opening such a file says, without the file's name.
std::string refusal(const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.safetensors", content);
  const std::string message = error_message([&] { SafetensorsFile file(path); });
  EXPECT_TRUE(message.starts_with(path.string() + ": ")) << message;
  return message.substr(std::min(message.size(), path.string().size() + 2));
}

std::string refusal(std::string_view header, std::string_view data) { return refusal(file_of(header, data)); }

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <typename T>
std::vector<T> rows_as(const TensorInfo& tensor, RowRange rows, DataType to, std::size_t count) {
  std::vector<T> out(count);
  read_rows(tensor, rows, to, std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<float> rows_as_f32(const TensorInfo& tensor, RowRange rows, std::size_t count) {
  return rows_as<float>(tensor, rows, DataType::f32, count);
}

using Floats = std::vector<float>;

TEST(SafetensorsFile, ReadsTensorsAndMetadata) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("t.safetensors", file_of(R"({"__metadata__":{"format":"pt"},)"
                                            R"("b":{"dtype":"U8","shape":[2,3],"data_offsets":[4,10]},)"
                                            R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
                                            R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}}  )",
                                            std::string_view("\x07\0\0\0abcdef", 10)));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  const TensorInfo& a = file.at("a");
  EXPECT_EQ(a.dtype, "I32");
  EXPECT_EQ(a.type, DataType::i32);
  EXPECT_EQ(a.shape, Shape{});
  EXPECT_EQ(a.bytes[0], std::byte{7});
  const TensorInfo& b = file.at("b");
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(rows_as<char>(b, {1, 2}, DataType::u8, 3), (std::vector<char>{'d', 'e', 'f'}));
  EXPECT_TRUE(rows_as_f32(file.at("none"), {0, 0}, 0).empty());
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(error_message([&] { file.at("c"); }), path.string() + ": has no tensor 'c'");
}

TEST(SafetensorsFile, ReadsAFileWithoutTensors) {
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write("t.safetensors", file_of("{}", "")));
  EXPECT_TRUE(file.tensors().empty());
}

TEST(SafetensorsFile, TensorsStayValidWhenTheFileIsMoved) {
  const TemporaryFolder folder;
  SafetensorsFile file(folder.write(
      "t.safetensors", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x")));
  const TensorInfo& tensor = file.at("a");
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.find("a"), &tensor);
  EXPECT_EQ(tensor.bytes[0], std::byte{'x'});
}

TEST(SafetensorsFile, RefusesHugeHeaderLengths) {
  EXPECT_EQ(refusal(file_of(std::uint64_t{1} << 62, "{}", "")),
            "header length 4611686018427387904 is over the format's limit of 100000000 bytes: not a "
            "safetensors file, or "
            "damaged");
  EXPECT_NE(refusal(file_of(std::numeric_limits<std::uint64_t>::max(), "{}", "")).find("limit"),
            std::string::npos);
  EXPECT_EQ(refusal(file_of(100'000'000, "{}", "")),
            "header length 100000000, but only 2 bytes follow it: the file was cut short");
}

TEST(SafetensorsFile, TellsWhatAnotherFormatIs) {
  EXPECT_NE(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("Git LFS"),
            std::string::npos);
  EXPECT_NE(refusal(std::string("PK\x03\x04\x14\x00\x08\x08", 8)).find("zip archive"), std::string::npos);
}

TEST(SafetensorsFile, RefusesFilesThatWereCutAnywhere) {
  const std::string whole = file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                                    std::string_view("\0\0\0\0\0\0\0\0", 8));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  EXPECT_EQ(refusal(""), "0 bytes, but a safetensors file begins with 8 bytes of header length");
  EXPECT_EQ(refusal(whole.substr(0, whole.size() - 1)),
            "tensor 'a': data_offsets end at 8, but the file has 7 bytes of data: it was cut short");
}

TEST(SafetensorsFile, RefusesTrailingBytes) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xyz"),
            "the tensors end at 2, but the file has 3 bytes of data: 1 too many");
  EXPECT_NE(refusal("{}", "x"), "");
}

TEST(SafetensorsFile, RefusesOverlapsAndHoles) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    "xyz"),
            "tensor 'b': data_offsets begin at 1, expected 2: it overlaps the tensor before it");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                    "xyz"),
            "tensor 'b': data_offsets begin at 2, expected 1: a hole lies before it");
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xyz").find("hole"),
            std::string::npos);
  // The same bytes twice.
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                    R"("b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                    "xyz")
                .find("overlaps"),
            std::string::npos);
}

TEST(SafetensorsFile, RefusesSizesThatDoNotFitTheShape) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F16","shape":[2,2],"data_offsets":[0,4]}})", "wxyz"),
            "tensor 'a': data_offsets span 4 bytes, but shape 2x2 of F16 has 64 bits");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""),
            "tensor 'a': shape 4294967296x4294967296 has too many elements to count");
  EXPECT_NE(refusal(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", "")
                .find("too many"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "x").find("12 bits"),
            std::string::npos);
}

TEST(SafetensorsFile, RefusesEntriesThatAreNone) {
  EXPECT_EQ(refusal(R"({"a":7})", ""), "tensor 'a': expected a JSON object");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[0]}})", ""), "tensor 'a': has no data_offsets");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F99","shape":[0],"data_offsets":[0,0]}})", ""),
            R"(tensor 'a': dtype "F99" is not a type of the safetensors format)");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", ""),
            "tensor 'a': shape is [-1], expected a list of integers of 0 or more");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", ""),
            "tensor 'a': data_offsets are [0], expected [begin, end]");
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", "xyz"), "");
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,99999999999999999999]}})", "x"), "");
  EXPECT_EQ(refusal(R"({"__metadata__":{"step":7}})", ""), "__metadata__ is not an object of strings");
}

TEST(SafetensorsFile, RefusesHeadersThatAreNoJsonObject) {
  EXPECT_EQ(refusal("[]", ""), "the header does not begin with '{'");
  EXPECT_EQ(refusal("", ""), "the header does not begin with '{'");
  EXPECT_NE(refusal("{\"a\":", "").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{\"\xff\":{}}", "").find("not valid JSON"), std::string::npos);
  EXPECT_EQ(refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                    R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                    ""),
            "the key 'a' stands twice in one JSON object");
  EXPECT_NE(refusal("{\"a\":" + std::string(100'000, '['), "").find("nest"), std::string::npos);
}

TEST(SafetensorsFile, RefusesPathsThatAreNoFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_message([&] { SafetensorsFile file(folder / "none"); }),
            (folder / "none").string() + ": cannot open: No such file or directory");
  EXPECT_EQ(error_message([&] { SafetensorsFile file(folder.path()); }),
            folder.path().string() + ": not a regular file");
}

TEST(ReadRows, ConvertsAmongFloatingPointTypes) {
  const TemporaryFolder folder;
  const std::vector<double> f64 = {1, -2, 0.1, 70000, 5, 6};
  const std::vector<float> f32 = {1, -2, 0.1f, 70000, 5, 6};
  std::vector<Half> f16;
  std::vector<BFloat16> bf16;
  for (const float value : f32) {
    f16.push_back(to_f16(value));
    bf16.push_back(to_bf16(value));
  }
  const std::vector<NamedTensor> tensors = {{{"f64", DataType::f64, {3, 2}}, bytes_of(f64)},
                                            {{"f32", DataType::f32, {3, 2}}, bytes_of(f32)},
                                            {{"f16", DataType::f16, {3, 2}}, bytes_of(f16)},
                                            {{"bf16", DataType::bf16, {3, 2}}, bytes_of(bf16)}};
  write_safetensors(folder / "t", tensors);
  const SafetensorsFile file(folder / "t");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rows_as_f32(file.at("f64"), {1, 3}, 4), (Floats{0.1f, 70000, 5, 6}));
  EXPECT_EQ(rows_as_f32(file.at("f32"), {1, 3}, 4), (Floats{0.1f, 70000, 5, 6}));
  EXPECT_EQ(rows_as_f32(file.at("f16"), {1, 2}, 2), (Floats{0.0999755859375f, infinity}));
  EXPECT_EQ(rows_as_f32(file.at("bf16"), {1, 2}, 2), (Floats{0.10009765625f, 70144}));
  for (const char* name : {"f64", "f32", "f16"}) {
    const auto halves = rows_as<Half>(file.at(name), {1, 2}, DataType::f16, 2);
    EXPECT_EQ(halves[0].bits, f16[2].bits) << name;
    EXPECT_EQ(halves[1].bits, f16[3].bits) << name;
  }
  for (const char* name : {"f64", "f32", "bf16"}) {
    const auto upper_halves = rows_as<BFloat16>(file.at(name), {1, 2}, DataType::bf16, 2);
    EXPECT_EQ(upper_halves[0].bits, bf16[2].bits) << name;
    EXPECT_EQ(upper_halves[1].bits, bf16[3].bits) << name;
  }
}

TEST(ReadRows, ConvertsTensorsOfManyBlocks) {
  const TemporaryFolder folder;
  std::vector<BFloat16> stored;
  Floats values;
  for (int i = 0; i < 3 * 1111; ++i) {
    stored.push_back(to_bf16(static_cast<float>(i)));
    values.push_back(to_f32(stored.back()));
  }
  write_safetensors(folder / "t",
                    std::vector<NamedTensor>{{{"a", DataType::bf16, {3, 1111}}, bytes_of(stored)}});
  const SafetensorsFile file(folder / "t");
  EXPECT_EQ(rows_as_f32(file.at("a"), {1, 3}, 2222), Floats(values.begin() + 1111, values.end()));
}

TEST(ReadRows, ReadsMisalignedData) {
  const TemporaryFolder folder;
  const Floats values = {1.5f, -2.25f};
  std::string data = "x";
  data.append(reinterpret_cast<const char*>(values.data()), 8);
  const SafetensorsFile file(
      folder.write("t", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                                data)));
  std::array<std::byte, 9> out = {};
  read_rows(file.at("b"), {0, 2}, DataType::f32, std::span(out).subspan(1));
  EXPECT_EQ(std::memcmp(out.data() + 1, values.data(), 8), 0);
  EXPECT_EQ(rows_as_f32(file.at("b"), {0, 2}, 2), values);
}

TEST(ReadRows, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  const auto path = folder.write("t", file_of(R"({"flags":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},)"
                                              R"("ids":{"dtype":"I32","shape":[1],"data_offsets":[2,6]},)"
                                              R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[6,10]}})",
                                              std::string(10, '\0')));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.at("flags").type, std::nullopt);
  EXPECT_EQ(error_message([&] {
              rows_as_f32(file.at("flags"), {0, 2}, 2);
            }),
            path.string() + ": tensor 'flags' has dtype BOOL, which Rondo does not read");
  EXPECT_EQ(error_message([&] {
              rows_as_f32(file.at("ids"), {0, 1}, 1);
            }),
            path.string() + ": tensor 'ids' has dtype I32, which cannot be read as f32");
  EXPECT_EQ(error_message([&] {
              rows_as_f32(file.at("scalar"), {0, 1}, 1);
            }),
            path.string() + ": tensor 'scalar' is a scalar and has no rows");
  const auto read_ids = [&](RowRange rows, std::size_t count) {
    return error_message([&] { rows_as<int>(file.at("ids"), rows, DataType::i32, count); });
  };
  EXPECT_EQ(read_ids({0, 2}, 2), path.string() + ": tensor 'ids' has 1 rows: cannot read those from 0 to 2");
  EXPECT_NE(read_ids({1, 0}, 0), "");
  EXPECT_EQ(read_ids({0, 1}, 2),
            path.string() + ": tensor 'ids': rows 0 to 1 as i32 are 4 bytes, but the output has 8");
}

TEST(SafetensorsName, IsReadBackAsTheSameType) {
  const TemporaryFolder folder;
  for (int number = 0; number < data_type_count; ++number) {
    const auto type = static_cast<DataType>(number);
    const std::vector<std::byte> zeros(size_of(type));
    write_safetensors(folder / "t", std::vector<NamedTensor>{{{"a", type, {1}}, zeros}});
    const SafetensorsFile file(folder / "t");
    EXPECT_EQ(file.at("a").type, type);
    EXPECT_EQ(file.at("a").dtype, safetensors_name(type));
  }
}

// ---- Writing ----

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t files_in(const TemporaryFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(SafetensorsWriter, PadsTheHeaderToEightBytes) {
  const TemporaryFolder folder;
  const Floats values = {0, 1};
  write_safetensors(folder / "t",
                    std::vector<NamedTensor>{{{"attn0", DataType::f32, {1, 2}}, bytes_of(values)}});
  const std::string header = R"({"attn0":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]}}    )";
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(content_of(folder / "t"), file_of(header, std::string_view("\0\0\0\0\0\0\x80\x3f", 8)));
}

TEST(SafetensorsWriter, WritesTensorsOneAfterAnotherInAnyOrder) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> bytes = {1, 2, 3};
  const Floats floats = {4, 5};
  const std::vector<TensorSpec> specs = {
      {"bytes", DataType::u8, {3}}, {"floats", DataType::f32, {2, 1}}, {"none", DataType::f32, {0, 4}}};
  SafetensorsWriter writer(folder / "t", specs, {{"format", "pt"}, {"step", "7"}});
  writer.write("bytes", bytes_of(bytes));
  writer.write("none", {});
  writer.write("floats", bytes_of(floats));
  EXPECT_FALSE(std::filesystem::exists(folder / "t"));
  writer.finish();
  const SafetensorsFile file(folder / "t");
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"step", "7"}}));
  EXPECT_EQ(rows_as_f32(file.at("floats"), {0, 2}, 2), floats);
  EXPECT_EQ(rows_as<std::uint8_t>(file.at("bytes"), {0, 3}, DataType::u8, 3), bytes);
  EXPECT_EQ(file.at("none").shape, (Shape{0, 4}));
  // The odd number of bytes does not push the floats off their alignment.
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.at("floats").bytes.data()) % alignof(float), 0u);
  EXPECT_EQ(files_in(folder), 1u);
}

TEST(SafetensorsWriter, ReplacesAFileThatIsStillMapped) {
  const TemporaryFolder folder;
  const Floats before = {1};
  const Floats after = {2};
  const TensorSpec spec = {"a", DataType::f32, {1}};
  write_safetensors(folder / "t", std::vector<NamedTensor>{{spec, bytes_of(before)}});
  const SafetensorsFile old(folder / "t");
  write_safetensors(folder / "t", std::vector<NamedTensor>{{spec, bytes_of(after)}});
  EXPECT_EQ(rows_as_f32(old.at("a"), {0, 1}, 1), before);
  EXPECT_EQ(rows_as_f32(SafetensorsFile(folder / "t").at("a"), {0, 1}, 1), after);
}

// Runs a write of "t" that fails, and checks that nothing of it stays.
template <typename Write>
std::string failed_write(Write&& write) {
  const TemporaryFolder folder;
  folder.write("t", "old");
  const std::string message = error_message([&] { write(folder / "t"); });
  EXPECT_EQ(content_of(folder / "t"), "old");
  EXPECT_EQ(files_in(folder), 1u);
  return message.substr(std::min(message.size(), (folder / "t").string().size() + 2));
}

TEST(SafetensorsWriter, FailedWriteLeavesTheOldFileAndNoOther) {
  const Floats values = {1, 2};
  const TensorSpec spec = {"a", DataType::f32, {2}};
  EXPECT_EQ(failed_write([&](const auto& path) {
              write_safetensors(path, std::vector<NamedTensor>{{spec, bytes_of(values).first(7)}});
            }),
            "tensor 'a' was declared with 8 bytes, but 7 were given");
  EXPECT_EQ(failed_write([&](const auto& path) { SafetensorsWriter(path, std::vector{spec}).finish(); }),
            "tensor 'a' was declared but not written, as were 0 others");
  EXPECT_EQ(failed_write([&](const auto& path) {
              SafetensorsWriter(path, std::vector{spec}).write("b", bytes_of(values));
            }),
            "tensor 'b' was not declared, or was written before");
  EXPECT_NE(failed_write([&](const auto& path) {
              SafetensorsWriter writer(path, std::vector{spec});
              writer.write("a", bytes_of(values));
              writer.write("a", bytes_of(values));
            }),
            "");
}

TEST(SafetensorsWriter, AbandonedWriteLeavesTheOldFileAndNoOther) {
  failed_write([](const auto& path) {
    SafetensorsWriter writer(path, std::vector<TensorSpec>{{"a", DataType::f32, {2}}});
    fail(ErrorKind::remote, "a peer died while tensors were gathered");
  });
}

TEST(SafetensorsWriter, RefusesSpecsThatNoFileCanHold) {
  const auto refuse = [](const std::vector<TensorSpec>& specs, const SafetensorsMetadata& metadata = {}) {
    return failed_write([&](const auto& path) { SafetensorsWriter(path, specs, metadata); });
  };
  EXPECT_EQ(refuse({{"a", DataType::u8, {1}}, {"a", DataType::u8, {2}}}),
            "tensor 'a': the name is given twice or reserved");
  EXPECT_NE(refuse({{"__metadata__", DataType::u8, {1}}}), "");
  EXPECT_NE(refuse({{"\xff", DataType::u8, {1}}}).find("UTF-8"), std::string::npos);
  EXPECT_NE(refuse({}, {{"format", "\xff"}}).find("UTF-8"), std::string::npos);
  const std::size_t half = std::size_t{1} << 63;
  EXPECT_NE(refuse({{"a", DataType::f16, {half}}}).find("too large"), std::string::npos);
  EXPECT_NE(refuse({{"a", DataType::u8, {half}}, {"b", DataType::u8, {half}}}).find("too large"),
            std::string::npos);
}

// The disk's being full, in a way that a test can bring about.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(SafetensorsWriter, FullDiskLeavesTheOldFileAndNoOther) {
  const std::vector<std::byte> data(100'000);
  const std::string message = failed_write([&](const auto& path) {
    const FileSizeLimit limit(50'000);
    write_safetensors(path, std::vector<NamedTensor>{{{"a", DataType::u8, {100'000}}, data}});
  });
  EXPECT_NE(message.find("cannot write its temporary file"), std::string::npos) << message;
}

TEST(SafetensorsWriter, RefusesAFolderThatDoesNotExistOrIsInTheWay) {
  const TemporaryFolder folder;
  EXPECT_NE(error_message([&] { SafetensorsWriter(folder / "none/t", {}); }).find("No such file"),
            std::string::npos);
  std::filesystem::create_directory(folder / "t");
  EXPECT_NE(error_message([&] { write_safetensors(folder / "t", {}); }).find("cannot rename"),
            std::string::npos);
  EXPECT_EQ(files_in(folder), 1u);
}

}  // namespace
}  // namespace rondo
