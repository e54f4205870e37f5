async def test_the_gatekeepers_answer_is_passed_on_and_kept_nowhere(mesh):
    sidecar = await mesh.sidecar()
    async with sidecar.client.get(f"{sidecar.base}/whoami") as response:
        assert response.status == 200
        assert response.headers["Cache-Control"] == "no-store"
        assert (await response.json())["principal"] == "app"
    assert ("GET", "/v1/whoami") in mesh.gatekeeper.requests


async def test_a_parameter_is_400(mesh):
    sidecar = await mesh.sidecar()
    assert (await sidecar.get("/whoami?as=root"))[0] == 400


async def test_without_a_gatekeeper_it_is_503_with_the_reason(mesh):
    sidecar = await mesh.sidecar()
    await mesh.gatekeeper.listening.stop()
    status, problem = await sidecar.get("/whoami")
    assert status == 503
    assert "no gatekeeper answers" in problem["detail"]


async def test_a_token_that_is_not_taken_is_503_with_the_gatekeepers_reason(mesh):
    sidecar = await mesh.sidecar()
    mesh.gatekeeper.refused_tokens = {f"token-{number}" for number in range(100)}
    status, problem = await sidecar.get("/whoami")
    assert status == 503
    assert "unauthenticated" in problem["detail"]


async def test_the_openapi_pages_describe_it(mesh):
    sidecar = await mesh.sidecar()
    document = (await sidecar.get("/openapi.json"))[1]
    assert document["paths"]["/whoami"]["get"]["operationId"] == "whoami"
    assert {"WhoAmI", "Granted", "Refused"} <= set(document["components"]["schemas"])
